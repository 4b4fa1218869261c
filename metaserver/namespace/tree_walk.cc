#include "metaserver/namespace/tree_walk.h"

#include <algorithm>

namespace kintsugi::metaserver {
namespace {

constexpr size_t kReadAhead = 64;

}  // namespace

Result<TreeWalk> TreeWalk::start(const Reader& reader, std::string_view root, std::string_view after) {
  KINTSUGI_ASSIGN(const Path path, Path::parse(root));
  KINTSUGI_ASSIGN(const Entry entry, walk(reader, path.names));
  TreeWalk tree;
  if (after.empty()) {
    tree.root_.emplace(path_text(path.names), entry);
    return tree;
  }
  KINTSUGI_ASSIGN(const Path last, Path::parse(after));
  const size_t depth = path.names.size();
  if (last.names.size() < depth || !std::equal(path.names.begin(), path.names.end(), last.names.begin())) {
    return Status{Code::kInvalidArgument, std::string(after) + " is not below " + std::string(root)};
  }
  // Every directory on the way to `last` continues after the name that led there; `last` itself is entered from
  // its start.
  Entry at = entry;
  for (size_t i = depth;; ++i) {
    if (!at.is_directory()) break;
    const bool end = i == last.names.size();
    tree.levels_.push_back(
        {at.id, path_text(std::span(last.names).first(i)), end ? "" : std::string(last.names[i]), {}, false});
    if (end) break;
    const std::optional<Entry> next = find_entry(reader, at.id, last.names[i]);
    if (!next) break;
    at = *next;
  }
  return tree;
}

TreeWalk TreeWalk::below(const Reader& reader, InodeId root, std::string path) {
  TreeWalk tree;
  const auto inode = reader.get_message<proto::StoredInode>(keys::inode(root));
  if (inode)
    tree.root_.emplace(std::move(path), Entry{root, static_cast<proto::Attributes::Type>(inode->type())});
  return tree;
}

void TreeWalk::fill(const Reader& reader, Level& level) {
  level.complete = true;
  reader.scan(keys::entries(level.directory, level.after), [&](std::string_view key, std::string_view value) {
    if (level.read_ahead.size() == kReadAhead) {
      level.complete = false;
      return false;
    }
    const auto stored = Reader::parse<proto::StoredDirectoryEntry>(value);
    level.read_ahead.emplace_back(
        std::string(keys::name_of_entry(key)),
        Entry{InodeId{stored.inode()}, static_cast<proto::Attributes::Type>(stored.type())});
    return true;
  });
  if (!level.read_ahead.empty()) level.after = level.read_ahead.back().first;
}

std::optional<TreeWalk::Item> TreeWalk::next(const Reader& reader) {
  while (true) {
    std::string path;
    Entry entry;
    if (root_) {
      std::tie(path, entry) = *root_;
      root_.reset();
    } else {
      if (levels_.empty()) return std::nullopt;
      Level& level = levels_.back();
      if (level.read_ahead.empty() && !level.complete) fill(reader, level);
      if (level.read_ahead.empty()) {
        levels_.pop_back();
        continue;
      }
      path = join(level.path, level.read_ahead.front().first);
      entry = level.read_ahead.front().second;
      level.read_ahead.pop_front();
    }
    auto inode = reader.get_message<proto::StoredInode>(keys::inode(entry.id));
    if (!inode) continue;
    if (entry.is_directory()) levels_.push_back({entry.id, path, "", {}, false});
    return Item{std::move(path), entry.id, std::move(*inode)};
  }
}

}  // namespace kintsugi::metaserver
