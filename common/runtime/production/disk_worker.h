/// What one disk of a machine has to itself, so that it holds up no other one when it hangs.
#pragma once

#include <memory>

#include "common/runtime/production/blocking_thread.h"
#include "common/runtime/production/uring_queue.h"

namespace kintsugi::runtime {

/// Places for calls that are with the kernel, and a thread for those that block. Shared by a UringDisk and its open
/// files.
struct DiskWorker {
  DiskWorker(asio::io_context& io, UringQueue::Limits limits)
      : queue(UringQueue::create(io, limits)), thread(io) {}
  ~DiskWorker() { shut_down(); }

  void shut_down() {
    thread.shut_down();
    queue->shut_down();
  }

  const std::shared_ptr<UringQueue> queue;
  BlockingThread thread;
};

}  // namespace kintsugi::runtime
