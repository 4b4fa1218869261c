/// What the parts of an open file ask of the whole.
#pragma once

#include <memory>

#include "common/proto/inode.pb.h"

namespace kintsugi::client {

class FileOwner {
 public:
  virtual ~FileOwner() = default;
  /// Keeps the file, and so its parts, alive: for what goes on in the background.
  virtual std::shared_ptr<void> pin() = 0;
  /// Takes attributes that the metaserver told in an answer.
  virtual void adopt(const proto::Attributes& attributes) = 0;
};

}  // namespace kintsugi::client
