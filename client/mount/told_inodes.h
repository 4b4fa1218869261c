/// What the kernel was told of inodes, and by which names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "client/lib/files/open_files.h"
#include "client/mount/cached_pages.h"
#include "client/mount/kernel/file_system.h"
#include "client/mount/kernel_beliefs.h"

namespace kintsugi::mount {

inline constexpr uint32_t kBlockBytes = 4096;  ///< the block size that the kernel is told of all files

/// Makes the answers that tell the kernel of inodes, and remembers what later requests need of them: which directory it
/// knows by a name, and how a directory was that has been removed and is still open. Single-threaded.
class ToldInodes {
 public:
  /// References outlive it. It remembers at most `remembered` names.
  ToldInodes(client::OpenFiles& files, KernelBeliefs& beliefs, CachedPages& pages, size_t remembered)
      : files_(files), beliefs_(beliefs), pages_(pages), remembered_(remembered) {}

  /// Returns what the kernel is told of an inode by this name, with what is not written out yet of it. Remembers the
  /// name of a directory.
  Entry entry_of(const Caller& caller, NodeId parent, std::string_view name, const proto::Attributes& told);
  AttributesAnswer answer_of(const Caller& caller, const proto::Attributes& told);
  /// The answer about a file as it is known here. `set`: they have just been changed by this request.
  AttributesAnswer answer_of_open(const Caller& caller, const client::OpenFile& file, bool set);
  static Attributes shown(const proto::Attributes& known);
  /// How long the kernel may believe what it is told of the inode now. While it has old pages it has to ask again before
  /// it reads some: get_attributes drops them, which other answers do not wait for.
  Lifetime lasts(const Caller& caller, NodeId node) const;

  /// Returns the directory that the kernel knows by this name. A name may be another directory's meanwhile, by another
  /// mount.
  std::optional<NodeId> directory(NodeId parent, std::string_view name) const;
  void name_is_removed(NodeId parent, std::string_view name);
  void name_is_moved(const std::pair<NodeId, std::string>& from, const std::pair<NodeId, std::string>& to,
                     bool exchange);

  /// Notes that a directory was removed through this mount; those who still have it open, or are in it, go on to see
  /// it.
  void directory_is_removed(proto::Attributes directory);
  const proto::Attributes* removed_directory(NodeId node) const;

  /// Remembers the attributes of a pipe, socket or device, also after a change of which no reply tells the kernel; does
  /// nothing for other inodes. The metaserver does not know who has such an inode open, and they go on to see it
  /// without a name.
  void remember_special(const proto::Attributes& inode);
  const proto::Attributes* special(NodeId node) const;

  /// Notes that the kernel gives back so many of the look-ups that it was answered.
  void forget(NodeId node, uint64_t lookups);
  size_t names() const { return directory_names_.size(); }
  size_t kept() const { return removed_directories_.size() + specials_.size(); }

 private:
  Attributes attributes_of(const Caller& caller, const proto::Attributes& told);

  client::OpenFiles& files_;
  KernelBeliefs& beliefs_;
  CachedPages& pages_;
  const size_t remembered_;
  std::map<std::pair<NodeId, std::string>, NodeId> directory_names_;   ///< bounded
  std::unordered_map<NodeId, proto::Attributes> removed_directories_;  ///< bounded
  struct Special {
    proto::Attributes told;
    uint64_t lookups = 0;  ///< look-ups that the kernel has not given back
  };
  std::unordered_map<NodeId, Special> specials_;  ///< bounded
};

}  // namespace kintsugi::mount
