/// Packs the entries of a directory as the kernel wants them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "client/mount/kernel/file_system.h"
#include "client/mount/kernel/protocol.h"

namespace kintsugi::mount {

fuse_attr to_fuse(const Attributes& attributes);
fuse_entry_out to_fuse(const Entry& entry);

/// Visits the nodes that count as looked up by a listing "plus", which DirectoryBuffer packed into `bytes`.
void for_each_listed(std::string_view bytes, const std::function<void(NodeId)>& visit);

class DirectoryBuffer final : public DirectoryListing {
 public:
  /// Packs into `bytes`, which is emptied, up to `limit` bytes.
  DirectoryBuffer(std::string& bytes, size_t limit, bool plus);

  bool add(const DirectoryEntry& entry) override;
  size_t room(size_t name_bytes) const override;

 private:
  size_t record_bytes(size_t name_bytes) const;

  std::string& bytes_;
  size_t limit_;
  bool plus_;
};

}  // namespace kintsugi::mount
