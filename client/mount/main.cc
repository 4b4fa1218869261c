// kintsugi-mount: the cluster as a directory. A parent that holds the mount and nothing else, and a child that serves
// it.
#include <cstdio>
#include <cstdlib>

#include "client/lib/client.h"
#include "client/lib/dirty/dirty_buffers.h"
#include "client/mount/cluster_file_system.h"
#include "client/mount/end_watch.h"
#include "client/mount/first_contact.h"
#include "client/mount/kernel/child_seat.h"
#include "client/mount/kernel/handed_mount.h"
#include "client/mount/kernel/supervisor.h"
#include "client/mount/kernel/terminal.h"
#include "client/mount/mount_arguments.h"
#include "client/mount/mount_report.h"
#include "client/mount/shared_room.h"
#include "client/mount/traced_mount.h"
#include "common/log/log.h"
#include "common/rpc/token.h"
#include "common/runtime/production/run.h"
#include "monitoring/sight/observer.h"
#include "monitoring/sight/recorder.h"
#include "tracing/agent/signalled.h"

namespace kintsugi::mount {
namespace {

constexpr int kExitUsage = 2;
constexpr uint32_t kKernelReadAhead = 4 << 20;
/// Whoever makes the mount for this process is started as soon as it waits.
constexpr std::chrono::seconds kMakerLimit{60};
/// --mount-for waits so long until the process that it has mounted for answers.
constexpr std::chrono::seconds kServerLimit{30};

int fail(const Status& status, int exit_status = 1) {
  std::fprintf(stderr, "kintsugi-mount: %s\n", status.message().c_str());
  return exit_status;
}

/// An application that makes one request after the other gives the next one within about this time.
constexpr Duration kBusyPoll = std::chrono::microseconds(50);

/// In the background the terminal is the caller's again once the mount is ready, and the log goes to syslog, unless it
/// has a file.
void leave_terminal_to_caller(const MountArguments& arguments) {
  if (arguments.foreground) return;
  leave_terminal();
  if (arguments.log_file.empty()) log_to_syslog();
}

/// Nothing that this mount was told of may be answered as known to the kernel any more, so this process ends at once. The
/// parent starts the next one, with somebody who tells the kernel.
void end_without_notifier() {
  log::error(
      "the process that tells the kernel what changed has ended: this one ends too, and the next one takes "
      "over");
  log::flush(std::chrono::seconds(1));
  std::_Exit(1);
}

/// The mount of a cluster, as its seat sees it.
class ClusterMount final : public MountEvents {
 public:
  ClusterMount(client::Client& client, client::OpenFiles& files, EndWatch& watch,
               const MountArguments& arguments)
      : client_(client), files_(files), watch_(watch), arguments_(arguments) {}

  void ready() override { leave_terminal_to_caller(arguments_); }
  asio::awaitable<Status> write_back(bool unmounts) override {
    if (unmounts) watch_.start();
    const Status status = co_await files_.sync_all(client_.context());
    if (unmounts && !gone_) watch_.pause();
    co_return status;
  }
  void gone() override {
    gone_ = true;
    watch_.start();
  }

 private:
  client::Client& client_;
  client::OpenFiles& files_;
  EndWatch& watch_;
  const MountArguments& arguments_;
  bool gone_ = false;
};

asio::awaitable<int> serve(runtime::ProductionRuntime& runtime, ChildSeat& seat,
                           const MountArguments& arguments, const rpc::Secret& secret) {
  sight::Recorder recorder(runtime.runtime().clock, runtime.runtime().random.next(), {.ring_events = 1024});
  client::Options options;
  options.metaserver = arguments.metaserver;
  options.memory_bytes = arguments.memory_bytes;
  options.recorder = &recorder;
  client::FilesOptions files_options;
  files_options.io_timeout = arguments.io_timeout;
  files_options.dirty_bytes = arguments.dirty_bytes;
  files_options.write_behind = arguments.write_behind;
  files_options.read_ahead_bytes = arguments.read_ahead_bytes;
  files_options.lease_directories = true;
  files_options.kernel_believes = arguments.cached_for > Duration{};
  SharedRoom room(seat.state().room());
  client::Client client(runtime.runtime(), std::move(options), secret);
  auto files = client.open_files(files_options, room.dirty_memory(), &room.journal(), room.name_log(),
                                 room.own_locks());
  files->note_appends(room.appends());
  if (seat.takes_over()) {
    const uint64_t bytes = files->recover();
    log::info("taking over from a process that ended, with {} bytes that it had not written out", bytes);
  }
  Notifier notifier(runtime.io(), runtime.runtime(), seat.take_notifier_socket());
  notifier.on_lost = end_without_notifier;
  auto file_system =
      std::make_unique<ClusterFileSystem>(runtime.runtime(), client, *files, &notifier,
                                          ClusterFileSystemOptions{.cached_for = arguments.cached_for});
  TracedMount traced(runtime.runtime(), secret);
  traced.start();
  MountReport did(recorder, *files, arguments.directory, traced.address());
  std::optional<sight::Observer> observer;
  observer.emplace(
      runtime, recorder, secret,
      sight::ObserverOptions{.metaserver = arguments.metaserver,
                             .who =
                                 [&did, name = "mount at " + arguments.directory] {
                                   did.look();
                                   return sight::Reporting{.kind = "mount", .name = name};
                                 },
                             .complete = [&did](proto::SightReport& report) { did.tell(report); }});
  ConnectionOptions connection;
  connection.context = client.context();
  if (arguments.keep_awake) connection.awake_device = device_to_keep_awake();
  EndWatch watch(runtime.runtime(), client, *files, "the mount at " + arguments.directory);
  ClusterMount events(client, *files, watch, arguments);
  const int status = co_await seat.serve(runtime, *file_system, std::move(connection), events);
  observer.reset();
  co_await traced.stop();
  notifier.close();
  co_await file_system->close_all();
  const Status stopped = co_await files->stop(seat.handed_over());
  if (!stopped.ok()) log::error("not everything could be written out: {}", stopped.to_string());
  co_await watch.stop();
  file_system.reset();
  files.reset();
  co_await client.stop();
  co_return status;
}

int run_child(ChildSeat& seat, const MountArguments& arguments, const rpc::Secret& secret) {
  if (!arguments.log_file.empty()) log::set_file(arguments.log_file);
  if (seat.takes_over()) leave_terminal_to_caller(arguments);
  auto tls = runtime::tls_policy(arguments.tls, false);
  if (!tls) return fail(tls.error());
  runtime::ProductionRuntime runtime(kBusyPoll, std::move(*tls));
  return runtime::run_on(runtime, serve(runtime, seat, arguments, secret));
}

int run(int argc, char** argv) {
  auto seat = ChildSeat::take();
  if (!seat) return fail(seat.error());
  auto arguments = parse_arguments(argc, argv);
  if (!arguments) return fail(arguments.error(), kExitUsage);
  const auto secret = rpc::load_credential(arguments->token_file, arguments->secret_file);
  if (!secret) return fail(secret.error());
  // Applications are told when they open a file, and not when what they wrote is refused.
  if (const auto holder = rpc::principal_of(secret->claims()); holder && holder->role == rpc::Role::kRead)
    arguments->options.read_only = true;
  if (*seat) return run_child(**seat, *arguments, *secret);
  arguments->options.read_ahead_bytes = kKernelReadAhead;
  if (arguments->mount_for != 0) {
    const Status handed = hand_mount(static_cast<pid_t>(arguments->mount_for), arguments->directory,
                                     arguments->options, kServerLimit);
    return handed.ok() ? 0 : fail(handed);
  }
  if (const Status asked = check_metaserver(*arguments, *secret); !asked.ok()) return fail(asked);
  int tell_ready = -1;
  if (!arguments->foreground) {
    const auto detached = detach();
    if (!detached) return fail(detached.error());
    tell_ready = *detached;
  }
  const auto device =
      arguments->await_mount ? await_mount(kMakerLimit) : mount_at(arguments->directory, arguments->options);
  if (!device) return fail(device.error());
  Supervisor supervisor(
      {.device = *device,
       .directory = arguments->directory,
       .arguments = {argv, argv + argc},
       .state_bytes = SharedRoom::bytes_needed(client::DirtyBuffers::region_bytes(arguments->dirty_bytes)),
       .tell_ready = tell_ready,
       .unmounts = !arguments->await_mount});
  return supervisor.run();
}

}  // namespace
}  // namespace kintsugi::mount

int main(int argc, char** argv) {
  kintsugi::tracing::block_trace_signal();
  return kintsugi::mount::run(argc, argv);
}
