/// What the parts of an open file ask of the whole.
#pragma once

#include <memory>

#include "common/proto/inode.pb.h"

namespace kintsugi::client {

class FileOwner {
 public:
  virtual ~FileOwner() = default;
  /// Keeps the file, and so its parts, alive: for work in the background.
  virtual std::shared_ptr<void> keep() = 0;
  /// The metaserver told these attributes in an answer.
  virtual void adopt(const proto::Attributes& attributes) = 0;
};

}  // namespace kintsugi::client
