/// What the parts of an open file ask of the whole.
#pragma once

#include <memory>

#include "common/proto/inode.pb.h"

namespace kintsugi::client {

class FileOwner {
 public:
  virtual ~FileOwner() = default;
  /// Keeps the file, and so its parts, alive: for work in the background.
  virtual std::shared_ptr<void> pin() = 0;
  /// Takes attributes that the metaserver told in an answer. False: they are older than what is known.
  virtual bool adopt(const proto::Attributes& attributes) = 0;
  /// Takes the answer to a change of our own, sent when FileAttributes::heard() was `since`. If it may also tell of
  /// changes by others before it, where the bytes are is asked anew.
  virtual void take_answer(const proto::Attributes& attributes, uint64_t since) = 0;
};

}  // namespace kintsugi::client
