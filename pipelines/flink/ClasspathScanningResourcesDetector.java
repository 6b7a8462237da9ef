package org.apache.beam.sdk.util.construction.resources;

import io.github.classgraph.ClassGraph;
import java.io.File;
import java.util.ArrayList;
import java.util.List;

/**
 * Stands in for Beam 2.62's class of this name, which says what a job brings along to its cluster: all of the class path.
 * Here that is this jar, 157 MB, which a cluster that was started from the same jar has. It went to the JobManager and
 * from there to each TaskManager all the same, with every job. The command that starts a job server asks the cluster, and
 * says by a property that nothing is to be brought.
 */
public class ClasspathScanningResourcesDetector implements PipelineResourcesDetector {
  private static final String IS_THERE = "kanonflow.cluster.has.jar";

  public ClasspathScanningResourcesDetector(ClassGraph unused) {}

  @Override
  public List<String> detect(ClassLoader loader) {
    List<String> files = new ArrayList<>();
    if (!Boolean.getBoolean(IS_THERE)) {
      for (String entry : System.getProperty("java.class.path", "").split(File.pathSeparator)) {
        if (!entry.isEmpty() && new File(entry).exists()) {
          files.add(new File(entry).getAbsolutePath());
        }
      }
    }
    return files;
  }
}
