package org.apache.beam.sdk.fn.server;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.beam.model.pipeline.v1.Endpoints.ApiServiceDescriptor;
import org.apache.beam.sdk.fn.channel.SocketAddressFactory;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.BindableService;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.Server;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.ServerInterceptors;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.netty.NettyServerBuilder;

/**
 * Stands in for Beam 2.62's class of this name, whose servers listen on all interfaces: those of a TaskManager hand rows
 * and state to whoever poses as a worker, that of a job server runs any job. Here they listen on loopback, where Python
 * workers and the command that submits are: on the same machine, or in the same pod.
 */
public abstract class ServerFactory {
  private static final int LEAST_SECONDS_BETWEEN_PINGS = 19;

  public static ServerFactory createDefault() {
    return createWithUrlFactoryAndPortSupplier(UrlFactory.createDefault(), () -> 0);
  }

  public static ServerFactory createWithUrlFactory(UrlFactory urls) {
    return createWithUrlFactoryAndPortSupplier(urls, () -> 0);
  }

  public static ServerFactory createWithPortSupplier(Supplier<Integer> ports) {
    return createWithUrlFactoryAndPortSupplier(UrlFactory.createDefault(), ports);
  }

  public static ServerFactory createWithUrlFactoryAndPortSupplier(UrlFactory urls, Supplier<Integer> ports) {
    return new OnLoopback(urls, ports);
  }

  /** A server at a port of its own choice; its address goes into the descriptor. */
  public abstract Server allocateAddressAndCreate(
      List<BindableService> services, ApiServiceDescriptor.Builder descriptor) throws IOException;

  /** A server at the descriptor's port. */
  public abstract Server create(List<BindableService> services, ApiServiceDescriptor descriptor) throws IOException;

  /** How a server's address is written for those who are to reach it. */
  public interface UrlFactory {
    String createUrl(String host, int port);

    static UrlFactory createDefault() {
      return (host, port) -> host + ":" + port;
    }
  }

  private static final class OnLoopback extends ServerFactory {
    private final UrlFactory urls;
    private final Supplier<Integer> ports;

    OnLoopback(UrlFactory urls, Supplier<Integer> ports) {
      this.urls = urls;
      this.ports = ports;
    }

    @Override
    public Server allocateAddressAndCreate(List<BindableService> services, ApiServiceDescriptor.Builder descriptor)
        throws IOException {
      Server server = listen(services, ports.get());
      descriptor.setUrl(urls.createUrl(InetAddress.getLoopbackAddress().getHostName(), server.getPort()));
      return server;
    }

    @Override
    public Server create(List<BindableService> services, ApiServiceDescriptor descriptor) throws IOException {
      SocketAddress address = SocketAddressFactory.createFrom(descriptor.getUrl());
      if (!(address instanceof InetSocketAddress)) {
        throw new IllegalArgumentException("not host:port: " + descriptor.getUrl());
      }
      return listen(services, ((InetSocketAddress) address).getPort());
    }

    private static Server listen(List<BindableService> services, int port) throws IOException {
      // Messages hold bundles of any size; workers ping an idle connection.
      NettyServerBuilder server =
          NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), port))
              .maxInboundMessageSize(Integer.MAX_VALUE)
              .permitKeepAliveTime(LEAST_SECONDS_BETWEEN_PINGS, TimeUnit.SECONDS);
      for (BindableService service : services) {
        server.addService(
            ServerInterceptors.intercept(service, GrpcContextHeaderAccessorProvider.interceptor()));
      }
      return server.build().start();
    }
  }
}
