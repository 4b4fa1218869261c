/// Which pages the kernel's page cache may have, and what it is told to forget.
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "client/lib/files/open_file.h"
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

  /// The answer that the kernel is given. It drops pages by itself when it takes another size or time of the last write
  /// from one: but for kAfterSetting, which it takes as its own change. It takes nothing from one that is kOvertaken by
  /// what it was told to forget meanwhile.
  enum class Answer { kUsual, kOvertaken, kAfterSetting };
  /// The kernel is told these attributes of the file.
  void told(const client::OpenFile& file, const proto::Attributes& attributes, Answer answer);
  /// The kernel may have pages from before a change by others, of which this process has heard since the file was
  /// opened: it has to ask again before it reads them.
  bool are_old(const client::OpenFile& file) const;
  /// The kernel drops pages of the file by itself, as it does when it opens it.
  void dropped_by_kernel(const client::OpenFile& file);
  /// Old pages that the kernel does not drop by itself, as those of a file that has the size and time of before, are gone
  /// when this returns. Waits for the kernel's locks of pages: never inside a request for some of them.
  asio::awaitable<void> drop_old(const client::OpenFile& file);

  size_t count() const { return files_.size(); }

 private:
  Notifier* notifier_;
  const size_t remembered_;
  struct Pages {
    int64_t version = 0;      ///< the time of the file's last change, as of has() or attributes_set()
    int64_t dropped_for = 0;  ///< the change by others after which pages were last dropped
    bool must_drop = false;   ///< there is another, and the kernel does not see by itself that there is
    /// Size, and time of the last write, as the kernel has them.
    std::optional<std::pair<uint64_t, int64_t>> told;
  };
  Pages& pages(NodeId node);

  std::unordered_map<NodeId, Pages> files_;  ///< bounded
};

}  // namespace kintsugi::mount
