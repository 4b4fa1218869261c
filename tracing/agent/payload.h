/// What runs at a sled, on the thread that came to it: it writes a record and, where a function is entered for the first time, has the
/// functions patched that it can reach next.
///
/// Neither memory is allocated nor a lock of anybody's taken, and no function of a library is called: the thread may be anywhere.
/// Only general registers are used, for the others may hold arguments or a result. The agent (agent.h) prepares everything that stands
/// here and takes it away again.
#pragma once

#include <cstdint>

#include "tracing/agent/recording.h"

namespace kintsugi::tracing {

/// The recording of this process; null: none. Whoever sets it to null waits with wait_until_idle() before the recording ends.
extern Shared<Recording*> current_recording;

/// REQUIRES: current_recording is null. Returns once no thread is in the payload, or is about to be with a recording that it knows.
/// False: after a million looks a thread still is.
bool wait_until_idle();
/// Records of threads that the process had no room to know, since it was started.
uint64_t lost_by_unknown_threads();
/// While one lives its thread passes sleds as if nothing was recorded. Whoever has `growing` has one: waiting for itself, a thread would
/// wait for ever.
class LeftOut {
 public:
  LeftOut();
  ~LeftOut();
  LeftOut(const LeftOut&) = delete;
  LeftOut& operator=(const LeftOut&) = delete;

 private:
  void* const before_;
};

/// What threads kept of a recording that ended is forgotten, and ended threads make room for others.
void forget_threads(bool (*lives)(uint32_t tid));

/// Where stubs go to, with the number of the function on the stack.
extern "C" void kintsugi_trace_entry();
extern "C" void kintsugi_trace_exit();
extern "C" void kintsugi_trace_tail();

}  // namespace kintsugi::tracing
