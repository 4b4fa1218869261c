// A file system in memory, mounted as kintsugi-mount mounts the cluster: with a parent and a child. For tests of the
// supervision, and to know what the protocol alone costs.
#include <cstdio>
#include <cstring>

#include <malloc.h>
#include <unistd.h>

#include "client/mount/kernel/child_seat.h"
#include "client/mount/kernel/mount_point.h"
#include "client/mount/kernel/supervisor.h"
#include "client/mount/kernel/terminal.h"
#include "common/runtime/production/run.h"
#include "tests/mount/memory_file_system.h"
#include "tests/mount/memory_mount/bench.h"

namespace kintsugi::mount {
namespace {

int serve(ChildSeat& seat, const char* state_directory) {
  // For the test of a binary that does not work.
  if (*state_directory != 0 && ::access((std::string(state_directory) + "/broken").c_str(), F_OK) == 0)
    return 3;
  // Large answers shall not be mapped, cleared and unmapped each time.
  ::mallopt(M_MMAP_THRESHOLD, 64 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
  runtime::ProductionRuntime runtime;
  MemoryFileSystem file_system(runtime.runtime(), state_directory);
  MountEvents nothing;
  return runtime::run_on(runtime, seat.serve(runtime, file_system, {}, nothing));
}

int fail(const Status& status) {
  std::fprintf(stderr, "kintsugi-mount-memory: %s\n", status.to_string().c_str());
  return 1;
}

}  // namespace
}  // namespace kintsugi::mount

int main(int argc, char** argv) {
  using namespace kintsugi;
  using namespace kintsugi::mount;
  if (argc == 3 && std::strcmp(argv[1], "bench") == 0) return run_bench(argv[2]);
  const bool foreground = argc > 3 && std::strcmp(argv[3], "--foreground") == 0;
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s DIRECTORY STATE_DIRECTORY|'' [--foreground]\n       %s bench DIRECTORY\n",
                 argv[0], argv[0]);
    return 2;
  }
  auto seat = ChildSeat::take();
  if (!seat) return fail(seat.error());
  if (*seat) return serve(**seat, argv[2]);
  int tell_ready = -1;
  if (!foreground) {
    auto detached = detach();
    if (!detached) return fail(detached.error());
    tell_ready = *detached;
  }
  auto device = mount_at(argv[1], {.source = "memory", .read_ahead_bytes = 1 << 20});
  if (!device) return fail(device.error());
  Supervisor supervisor({.device = *device,
                         .directory = argv[1],
                         .arguments = {argv, argv + argc},
                         .state_bytes = 1 << 20,
                         .tell_ready = tell_ready});
  return supervisor.run();
}
