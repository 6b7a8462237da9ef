package org.apache.beam.runners.fnexecution.control;

import java.util.Collections;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.DelayedBundleApplication;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.ProcessBundleResponse;
import org.apache.beam.runners.core.StateInternalsFactory;
import org.apache.beam.runners.core.StateNamespace;
import org.apache.beam.runners.core.StateNamespaces;
import org.apache.beam.runners.core.StateTags;
import org.apache.beam.runners.core.TimerInternalsFactory;
import org.apache.beam.sdk.coders.Coder;
import org.apache.beam.sdk.coders.CoderException;
import org.apache.beam.sdk.state.TimeDomain;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.util.CoderUtils;
import org.apache.beam.sdk.util.WindowedValue;
import org.joda.time.Instant;

/**
 * Stands in for Beam 2.62's class of this name, whose handler keeps what a source puts off in a state of a new name for
 * every bundle. Flink forgets no name, so checkpoints of a source that polls grew by 5.8 kB with every poll
 * (apache/beam issue 27648, mended in 2.76 by a map). Here the names are the same in every bundle.
 *
 * <p>What that rests on: a source here is one element, with one rest at a time, and a rest is put off again only after
 * the timer of the one before it has fired. Two equal elements of one source would overwrite each other's rest; a stream
 * of kanonflow has none (pipelines/flink/begin_once.py).
 */
public class BundleCheckpointHandlers {
  private BundleCheckpointHandlers() {}

  /** Writes each rest of a bundle into a state, and sets a timer that brings it back. */
  @SuppressWarnings({"rawtypes", "unchecked"})
  public static class StateAndTimerBundleCheckpointHandler<T> implements BundleCheckpointHandler {
    /** How the runner tells these timers from a user's. */
    public static final String SDF_PREFIX = "sdf_checkpoint";

    private final TimerInternalsFactory<T> timers;
    private final StateInternalsFactory<T> states;
    private final Coder<WindowedValue<T>> coder;
    private final Coder windowCoder;

    public StateAndTimerBundleCheckpointHandler(
        TimerInternalsFactory<T> timers,
        StateInternalsFactory<T> states,
        Coder<WindowedValue<T>> coder,
        Coder windowCoder) {
      this.timers = timers;
      this.states = states;
      this.coder = coder;
      this.windowCoder = windowCoder;
    }

    /** Whether a timer is one of these. Those of a checkpoint that Beam's own class wrote are too. */
    public static boolean isSdfTimer(String timer) {
      return timer.startsWith(SDF_PREFIX);
    }

    @Override
    public void onCheckpoint(ProcessBundleResponse bundle) {
      int number = 0;
      for (DelayedBundleApplication rest : bundle.getResidualRootsList()) {
        if (rest.hasApplication()) {
          keep(rest, SDF_PREFIX + ":kept:" + number);
        }
        number++;
      }
    }

    private void keep(DelayedBundleApplication rest, String name) {
      WindowedValue<T> element;
      try {
        element = CoderUtils.decodeFromByteArray(coder, rest.getApplication().getElement().toByteArray());
      } catch (CoderException wrong) {
        throw new IllegalStateException("what a source put off cannot be read", wrong);
      }
      Instant back = Instant.now().plus(rest.getRequestedTimeDelay().getSeconds() * 1000);
      Instant held = new Instant(heldAt(rest));
      for (BoundedWindow window : element.getWindows()) {
        StateNamespace place = StateNamespaces.window(windowCoder, window);
        WindowedValue<T> alone =
            WindowedValue.of(
                element.getValue(), element.getTimestamp(), Collections.singletonList(window), element.getPane());
        timers
            .timerInternalsForKey(element.getValue())
            .setTimer(place, name, "", back, held, TimeDomain.PROCESSING_TIME);
        states.stateInternalsForKey(element.getValue()).state(place, StateTags.value(name, coder)).write(alone);
      }
    }

    /** The least time that any output may still have, in ms since 1970: the watermark waits there. */
    private static long heldAt(DelayedBundleApplication rest) {
      return rest.getApplication().getOutputWatermarksMap().values().stream()
          .mapToLong(time -> time.getSeconds() * 1000)
          .map(time -> Math.min(time, BoundedWindow.TIMESTAMP_MAX_VALUE.getMillis()))
          .min()
          .orElse(BoundedWindow.TIMESTAMP_MIN_VALUE.getMillis());
    }
  }
}
