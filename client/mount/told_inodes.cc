#include "client/mount/told_inodes.h"

#include <algorithm>

#include "client/lib/files/file_mode.h"
#include "common/base/math.h"

namespace kintsugi::mount {
namespace {

// One in so many inodes that are remembered are removed directories, or are neither files nor directories.
constexpr size_t kRemovedShare = 10;
constexpr size_t kSpecialShare = 2;

}  // namespace

Attributes ToldInodes::attributes_of(const Caller& caller, const proto::Attributes& told) {
  remember_special(told);
  const auto file = files_.find(told.inode());
  if (!file) return shown(told);
  file->adopt(told);
  return answer_of_open(caller, *file, false).attributes;
}

AttributesAnswer ToldInodes::answer_of_open(const Caller& caller, const client::OpenFile& file, bool set) {
  const proto::Attributes known = file.attributes();
  using Answer = CachedPages::Answer;
  const Answer usual = beliefs_.is_overtaken(caller) ? Answer::kOvertaken : Answer::kUsual;
  pages_.told(file, known, set ? Answer::kAfterSetting : usual);
  return {shown(known), lasts(caller, known.inode())};
}

Attributes ToldInodes::shown(const proto::Attributes& known) {
  Attributes attributes;
  attributes.inode = known.inode();
  attributes.size_bytes = known.size();
  attributes.blocks = divide_up(known.used_bytes(), uint64_t{512});
  attributes.accessed_ns = known.accessed_ns();
  attributes.modified_ns = known.modified_ns();
  attributes.changed_ns = known.changed_ns();
  attributes.mode = client::type_bits(known.type()) | known.mode();
  attributes.links = known.links();
  attributes.uid = known.uid();
  attributes.gid = known.gid();
  attributes.device = static_cast<uint32_t>(known.device());
  attributes.block_bytes = kBlockBytes;
  return attributes;
}

Entry ToldInodes::entry_of(const Caller& caller, NodeId parent, std::string_view name,
                           const proto::Attributes& told) {
  const std::pair key{parent, std::string(name)};
  if (told.type() != proto::Attributes::DIRECTORY) {
    directory_names_.erase(key);
  } else {
    if (directory_names_.size() >= remembered_) directory_names_.clear();
    directory_names_[key] = told.inode();
    removed_directories_.erase(told.inode());  // it may come back out of the trash
  }
  beliefs_.told(caller, told);
  Entry entry;
  entry.node = told.inode();
  entry.attributes = attributes_of(caller, told);
  if (const auto special = specials_.find(told.inode()); special != specials_.end())
    ++special->second.lookups;
  entry.entry_valid = beliefs_.lasts(caller, parent);
  entry.attributes_valid = lasts(caller, told.inode());
  return entry;
}

AttributesAnswer ToldInodes::answer_of(const Caller& caller, const proto::Attributes& told) {
  beliefs_.told(caller, told);
  const Attributes attributes = attributes_of(caller, told);
  return {attributes, lasts(caller, told.inode())};
}

Lifetime ToldInodes::lasts(const Caller& caller, NodeId node) const {
  const auto file = files_.find(node);
  return file && pages_.are_old(*file) ? Lifetime{} : beliefs_.lasts(caller);
}

void ToldInodes::directory_is_removed(proto::Attributes directory) {
  if (directory.type() != proto::Attributes::DIRECTORY) return;
  directory.set_links(0);
  if (removed_directories_.size() >= remembered_ / kRemovedShare) removed_directories_.clear();
  removed_directories_.insert_or_assign(directory.inode(), std::move(directory));
}

std::optional<NodeId> ToldInodes::directory(NodeId parent, std::string_view name) const {
  const auto found = directory_names_.find({parent, std::string(name)});
  return found == directory_names_.end() ? std::nullopt : std::optional(found->second);
}

void ToldInodes::name_is_removed(NodeId parent, std::string_view name) {
  directory_names_.erase({parent, std::string(name)});
}

void ToldInodes::name_is_moved(const std::pair<NodeId, std::string>& from,
                               const std::pair<NodeId, std::string>& to, bool exchange) {
  auto moved = directory_names_.extract(from);
  auto other = directory_names_.extract(to);
  if (moved) {
    moved.key() = to;
    directory_names_.insert(std::move(moved));
  }
  if (other && exchange) {
    other.key() = from;
    directory_names_.insert(std::move(other));
  }
}

const proto::Attributes* ToldInodes::removed_directory(NodeId node) const {
  const auto found = removed_directories_.find(node);
  return found == removed_directories_.end() ? nullptr : &found->second;
}

void ToldInodes::remember_special(const proto::Attributes& inode) {
  if (inode.type() == proto::Attributes::FILE || inode.type() == proto::Attributes::DIRECTORY) return;
  if (specials_.size() >= remembered_ / kSpecialShare) specials_.clear();
  specials_[inode.inode()].told = inode;
}

const proto::Attributes* ToldInodes::special(NodeId node) const {
  const auto found = specials_.find(node);
  return found == specials_.end() ? nullptr : &found->second.told;
}

void ToldInodes::forget(NodeId node, uint64_t lookups) {
  beliefs_.forget(node);
  removed_directories_.erase(node);
  const auto special = specials_.find(node);
  if (special == specials_.end()) return;
  // The kernel continues to know it when an answer that it did not take is undone.
  special->second.lookups -= std::min(special->second.lookups, lookups);
  if (special->second.lookups == 0) specials_.erase(special);
}

}  // namespace kintsugi::mount
