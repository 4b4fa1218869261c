#include "tests/simulation/runtime/sim_file_tree.h"

#include <algorithm>

#include "common/base/assert.h"
#include "common/runtime/disk.h"

namespace kintsugi::simulation {
namespace {

std::vector<std::string> split(const std::string& path) {
  KINTSUGI_ASSERT(path.starts_with('/'));
  std::vector<std::string> names;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) names.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

uint64_t round_up(uint64_t bytes) {
  return (bytes + runtime::kDiskAlignment - 1) / runtime::kDiskAlignment * runtime::kDiskAlignment;
}

}  // namespace

bool lies_below(const std::string& path, const std::string& prefix) {
  if (prefix == "/") return true;
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

Status Inode::charge(uint64_t bytes) {
  const uint64_t wanted = round_up(bytes);
  if (wanted > charged_bytes && wanted - charged_bytes > volume->free_bytes()) {
    return {Code::kNoSpace, "no space left on " + volume->prefix};
  }
  volume->used_bytes = volume->used_bytes + wanted - charged_bytes;
  charged_bytes = wanted;
  return {};
}

void Inode::move_to(std::shared_ptr<Volume> other) {
  volume->used_bytes -= charged_bytes;
  volume = std::move(other);
  volume->used_bytes += charged_bytes;
}

Result<InodePtr> FileTree::find(const std::string& path) const {
  InodePtr inode = root_;
  for (const auto& name : split(path)) {
    if (!inode->is_directory) return Status{Code::kNotDirectory, path + ": a parent is not a directory"};
    auto found = inode->entries.find(name);
    if (found == inode->entries.end()) return Status{Code::kNotFound, path + ": no such file or directory"};
    inode = found->second;
  }
  return inode;
}

Result<FileTree::Place> FileTree::place(const std::string& path) const {
  const auto names = split(path);
  if (names.empty()) return Status{Code::kInvalidArgument, "the root has no parent"};
  std::string parent = "/";
  for (size_t i = 0; i + 1 < names.size(); ++i)
    parent += names[i] + "/";
  KINTSUGI_ASSIGN(InodePtr directory, find(parent));
  if (!directory->is_directory) return Status{Code::kNotDirectory, parent + ": not a directory"};
  return Place{std::move(directory), names.back()};
}

Result<InodePtr> FileTree::make_file(const std::string& path, std::shared_ptr<Volume> volume, TimePoint now) {
  InodePtr inode = new_inode(false);
  inode->volume = std::move(volume);
  KINTSUGI_TRY(add(path, inode, now));
  return inode;
}

Status FileTree::add(const std::string& path, InodePtr inode, TimePoint now) {
  KINTSUGI_ASSIGN(Place at, place(path));
  auto [entry, fresh] = at.directory->entries.try_emplace(at.name, inode);
  if (!fresh) return {Code::kAlreadyExists, path + ": exists already"};
  changes_.push_back({now, {at.directory, at.name, std::move(inode)}, {}});
  return {};
}

Status FileTree::rename(const std::string& from, const std::string& to, TimePoint now) {
  KINTSUGI_ASSIGN(Place source, place(from));
  KINTSUGI_ASSIGN(Place target, place(to));
  auto moved = source.directory->entries.find(source.name);
  if (moved == source.directory->entries.end())
    return {Code::kNotFound, from + ": no such file or directory"};
  const InodePtr inode = moved->second;
  if (inode->is_directory && lies_below(to, from) && to != from) {
    return {Code::kInvalidArgument, "cannot move " + from + " into itself"};
  }
  if (auto old = target.directory->entries.find(target.name); old != target.directory->entries.end()) {
    if (old->second == inode) return {};
    if (old->second->is_directory && !inode->is_directory)
      return {Code::kIsDirectory, to + ": is a directory"};
    if (!old->second->is_directory && inode->is_directory)
      return {Code::kNotDirectory, to + ": not a directory"};
    if (old->second->is_directory && !old->second->entries.empty())
      return {Code::kNotEmpty, to + ": not empty"};
  }
  source.directory->entries.erase(moved);
  target.directory->entries[target.name] = inode;
  changes_.push_back({now, {target.directory, target.name, inode}, {source.directory, source.name, inode}});
  return {};
}

Status FileTree::remove(const std::string& path, TimePoint now) {
  KINTSUGI_ASSIGN(Place at, place(path));
  auto found = at.directory->entries.find(at.name);
  if (found == at.directory->entries.end()) return {Code::kNotFound, path + ": no such file or directory"};
  const InodePtr inode = found->second;
  if (inode->is_directory && !inode->entries.empty()) return {Code::kNotEmpty, path + ": not empty"};
  at.directory->entries.erase(found);
  changes_.push_back({now, {}, {at.directory, at.name, inode}});
  return {};
}

Status FileTree::remove_all(const std::string& path, TimePoint now) {
  KINTSUGI_ASSIGN(InodePtr inode, find(path));
  if (inode->is_directory) {
    KINTSUGI_ASSIGN(const std::vector<std::string> names, list(path));
    for (const std::string& name : names)
      KINTSUGI_TRY(remove_all(path + "/" + name, now));
  }
  return remove(path, now);
}

Status FileTree::make_directory(const std::string& path, TimePoint now) {
  std::string so_far;
  for (const auto& name : split(path)) {
    so_far += "/" + name;
    auto known = find(so_far);
    if (!known) {
      KINTSUGI_TRY(add(so_far, new_inode(true), now));
    } else if (!(*known)->is_directory) {
      return {Code::kNotDirectory, so_far + ": not a directory"};
    }
  }
  return {};
}

Result<std::vector<std::string>> FileTree::list(const std::string& path) const {
  KINTSUGI_ASSIGN(InodePtr directory, find(path));
  if (!directory->is_directory) return Status{Code::kNotDirectory, path + ": not a directory"};
  std::vector<std::string> names;
  for (const auto& [name, inode] : directory->entries)
    names.push_back(name);
  return names;
}

void FileTree::apply_added(Half& half) {
  if (half.directory) half.directory->durable_entries[half.name] = half.inode;
  half = {};
}

void FileTree::apply_removed(Half& half) {
  if (half.directory) {
    auto found = half.directory->durable_entries.find(half.name);
    if (found != half.directory->durable_entries.end() && found->second == half.inode) {
      half.directory->durable_entries.erase(found);
    }
  }
  half = {};
}

void FileTree::apply(Change& change) {
  apply_added(change.added);
  apply_removed(change.removed);
}

Status FileTree::sync_directory(const std::string& path) {
  KINTSUGI_ASSIGN(InodePtr directory, find(path));
  if (!directory->is_directory) return {Code::kNotDirectory, path + ": not a directory"};
  for (auto& change : changes_) {
    if (change.added.directory == directory) apply_added(change.added);
    if (change.removed.directory == directory) apply_removed(change.removed);
  }
  std::erase_if(changes_,
                [](const Change& change) { return !change.added.directory && !change.removed.directory; });
  return {};
}

void FileTree::commit_old(TimePoint now) {
  while (!changes_.empty() && changes_.front().at + kCommitAfter <= now) {
    apply(changes_.front());
    changes_.pop_front();
  }
}

void FileTree::lose_power(Unsynced unsynced, SimRandom& random) {
  enum Mode { kNone, kPrefix, kSubset };
  Mode mode = static_cast<Mode>(random.below(3));
  size_t prefix = static_cast<size_t>(random.below(changes_.size() + 1));
  if (unsynced == Unsynced::kDropped) mode = kNone;
  if (unsynced == Unsynced::kKept) {
    mode = kPrefix;
    prefix = changes_.size();
  }
  for (size_t i = 0; i < changes_.size(); ++i) {
    const bool coin = random.coin();
    if ((mode == kPrefix && i < prefix) || (mode == kSubset && coin)) apply(changes_[i]);
  }
  changes_.clear();
  std::set<const Inode*> seen;
  restore(root_, unsynced, random, seen);
}

void FileTree::restore(const InodePtr& inode, Unsynced unsynced, SimRandom& random,
                       std::set<const Inode*>& seen) {
  if (!seen.insert(inode.get()).second) return;  // it has two names, after half a rename
  if (!inode->is_directory) {
    inode->content.lose_power(unsynced, random);
    // This is never refused for space: these bytes were on the disk before.
    inode->volume->used_bytes -= inode->charged_bytes;
    inode->charged_bytes = round_up(inode->content.current().size());
    inode->volume->used_bytes += inode->charged_bytes;
    return;
  }
  inode->entries = inode->durable_entries;
  for (const auto& [name, child] : inode->entries)
    restore(child, unsynced, random, seen);
}

std::vector<InodePtr> FileTree::files_below(const std::string& path) const {
  std::vector<InodePtr> files;
  auto top = find(path);
  if (!top) return files;
  std::vector<InodePtr> left{*top};
  while (!left.empty()) {
    const InodePtr inode = left.back();
    left.pop_back();
    if (!inode->is_directory) files.push_back(inode);
    for (const auto& [name, child] : inode->entries)
      left.push_back(child);
  }
  return files;
}

}  // namespace kintsugi::simulation
