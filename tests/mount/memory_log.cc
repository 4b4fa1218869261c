#include "tests/mount/memory_log.h"

#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/assert.h"

namespace kintsugi::mount {
namespace {

template <class T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<uint32_t>(text.size()));
  out.append(text);
}

struct Reader {
  std::string_view left;
  bool ok = true;
  template <class T>
  T get() {
    T value{};
    if (left.size() < sizeof value) {
      ok = false;
      return value;
    }
    std::memcpy(&value, left.data(), sizeof value);
    left.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const auto size = get<uint32_t>();
    if (left.size() < size) {
      ok = false;
      return {};
    }
    std::string result(left.substr(0, size));
    left.remove_prefix(size);
    return result;
  }
};

}  // namespace

MemoryLog::MemoryLog(const std::string& path) {
  if (path.empty()) return;
  log_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  KINTSUGI_ASSERT(log_ >= 0);
}

MemoryLog::~MemoryLog() {
  if (log_ >= 0) ::close(log_);
}

void MemoryLog::note_node(NodeId id, const MemoryNode& node) {
  if (log_ < 0) return;
  pending_.push_back('N');
  put(pending_, id);
  put(pending_, node.attributes);
  put(pending_, node.parent);
  put_text(pending_, node.target);
  put(pending_, static_cast<uint32_t>(node.xattrs.size()));
  for (const auto& [name, value] : node.xattrs) {
    put_text(pending_, name);
    put_text(pending_, value);
  }
}

void MemoryLog::note_entry(NodeId directory, std::string_view name, NodeId child, uint64_t cookie) {
  if (log_ < 0) return;
  pending_.push_back('D');
  put(pending_, directory);
  put_text(pending_, name);
  put(pending_, child);
  put(pending_, cookie);
}

void MemoryLog::commit(const Caller& caller, NodeId result) {
  if (log_ < 0) return;
  pending_.push_back('U');
  put(pending_, caller.unique);
  put(pending_, result);
  std::string record;
  put_text(record, pending_);
  pending_.clear();
  KINTSUGI_ASSERT(::write(log_, record.data(), record.size()) == static_cast<ssize_t>(record.size()));
}

std::optional<NodeId> MemoryLog::done_before(const Caller& caller) const {
  if (!caller.resent) return {};
  const auto found = done_.find(caller.unique);
  if (found == done_.end()) return {};
  return found->second;
}

void MemoryLog::replay(std::unordered_map<NodeId, MemoryNode>& nodes) {
  if (log_ < 0) return;
  struct stat found{};
  ::fstat(log_, &found);
  std::string all(static_cast<size_t>(found.st_size), 0);
  KINTSUGI_ASSERT(::pread(log_, all.data(), all.size(), 0) == found.st_size);
  Reader log{all};
  size_t good = 0;
  for (;;) {
    Reader record{{}};
    const std::string text = log.text();
    if (!log.ok) break;
    good = all.size() - log.left.size();
    record.left = text;
    while (!record.left.empty() && record.ok) {
      const auto kind = record.get<char>();
      if (kind == 'N') {
        const auto id = record.get<NodeId>();
        MemoryNode& node = nodes[id];
        node.attributes = record.get<Attributes>();
        node.parent = record.get<NodeId>();
        node.target = record.text();
        node.xattrs.clear();
        for (auto left = record.get<uint32_t>(); left > 0 && record.ok; --left) {
          const std::string name = record.text();
          node.xattrs[name] = record.text();
        }
      } else if (kind == 'D') {
        MemoryNode& directory = nodes[record.get<NodeId>()];
        const std::string name = record.text();
        const auto child = record.get<NodeId>();
        const auto cookie = record.get<uint64_t>();
        if (const auto old = directory.names.find(name); old != directory.names.end()) {
          directory.entries.erase(old->second);
          directory.names.erase(old);
        }
        if (child != 0) {
          directory.entries[cookie] = {name, child};
          directory.names[name] = cookie;
          directory.next_cookie = cookie + 1;
        }
      } else {
        const auto unique = record.get<uint64_t>();
        done_[unique] = record.get<NodeId>();
      }
    }
    KINTSUGI_ASSERT(record.ok);
  }
  // What a killed process had half written was answered to nobody.
  KINTSUGI_ASSERT(::ftruncate(log_, static_cast<off_t>(good)) == 0);
}

}  // namespace kintsugi::mount
