/// Which pages the kernel's page cache may have, and what it is told to forget.
#pragma once

#include <unordered_map>

#include <boost/asio/awaitable.hpp>

#include "client/mount/kernel/file_system.h"
#include "client/mount/kernel/notifier.h"
#include "common/proto/types.pb.h"

namespace kintsugi::mount {

/// Single-threaded.
class CachedPages {
 public:
  /// `notifier` outlives it; it may be null: then the kernel is told nothing. It remembers at most `remembered` files.
  CachedPages(Notifier* notifier, size_t remembered) : notifier_(notifier), remembered_(remembered) {}

  /// Notes that the kernel may have pages of the file as it was after its last change, which is this one. Returns true
  /// if it already had those, and no older ones.
  bool has(const proto::Attributes& now);

  /// Notes that this mount has changed the file's attributes and none of its bytes, while nobody else could change
  /// anything: pages of the file as it was after the change at `before` are those after the one at `now`.
  void attributes_set(NodeId node, int64_t before, int64_t now);

  /// Tells the kernel that what it believes of the inode's attributes is out of date. This waits for no lock of the
  /// kernel, since no pages are concerned.
  asio::awaitable<void> attributes_changed(NodeId node);

  size_t count() const { return versions_.size(); }

 private:
  Notifier* notifier_;
  const size_t remembered_;
  /// Bounded; value: time of the file's last change, as its version.
  std::unordered_map<NodeId, int64_t> versions_;
};

}  // namespace kintsugi::mount
