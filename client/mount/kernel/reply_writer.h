/// Answers to the kernel, written to /dev/fuse.
#pragma once

#include <cstdint>

#include "client/mount/kernel/request.h"

namespace kintsugi::mount {

class ReplyWriter {
 public:
  /// `device` stays open for as long as this lives.
  explicit ReplyWriter(int device) : device_(device) {}

  /// Answers the request that the kernel knows as `unique`; `reply` may be null, and is told only without an error.
  /// False: the kernel did not take it, since nobody waits for it any more.
  bool write(uint64_t unique, int error, const Reply* reply);
  /// Has the kernel send again what it has no answer to. False: this kernel does not.
  bool ask_to_resend();

 private:
  int device_;
};

}  // namespace kintsugi::mount
