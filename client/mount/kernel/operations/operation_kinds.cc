#include "client/mount/kernel/operations/operation_kinds.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace kintsugi::mount {
namespace {

struct Kind {
  std::string_view site, kind;
};

constexpr Kind kKinds[] = {
    {"mount.lookup", "lookup"},
    {"mount.get_attributes", "attributes"},
    {"mount.set_attributes", "attributes"},
    {"mount.read_link", "lookup"},
    {"mount.space", "other"},
    {"mount.symlink", "create"},
    {"mount.make_node", "create"},
    {"mount.make_directory", "create"},
    {"mount.unlink", "remove"},
    {"mount.remove_directory", "remove"},
    {"mount.rename", "rename"},
    {"mount.link", "create"},
    {"mount.open", "open"},
    {"mount.create", "create"},
    {"mount.create_nameless", "create"},
    {"mount.read", "read"},
    {"mount.write", "write"},
    {"mount.flush", "close"},
    {"mount.fsync", "sync"},
    {"mount.release", "close"},
    {"mount.allocate", "write"},
    {"mount.seek", "other"},
    {"mount.copy_range", "write"},
    {"mount.open_directory", "list"},
    {"mount.read_directory", "list"},
    {"mount.fsync_directory", "sync"},
    {"mount.release_directory", "list"},
    {"mount.set_xattr", "attributes"},
    {"mount.get_xattr", "attributes"},
    {"mount.list_xattrs", "attributes"},
    {"mount.remove_xattr", "attributes"},
    {"mount.get_lock", "lock"},
    {"mount.set_lock", "lock"},
    // They wait for other applications, as long as these like.
    {"mount.wait_for_lock", "wait_for_lock"},
};

}  // namespace

std::string_view kind_of(std::string_view site) {
  const auto found = std::ranges::find(kKinds, site, &Kind::site);
  return found == std::end(kKinds) ? std::string_view() : found->kind;
}

void tell_operations(const std::vector<sight::PathTotals>& totals, proto::SightMount& mount) {
  std::map<std::string_view, proto::SightMount::Operations> kinds;
  for (const sight::PathTotals& path : totals) {
    const std::string_view kind = path.site == nullptr ? std::string_view() : kind_of(path.site->name);
    if (kind.empty()) continue;
    proto::SightMount::Operations& operations = kinds[kind];
    operations.set_requests(operations.requests() + path.count);
    operations.set_errors(operations.errors() + path.errors);
    operations.set_ns(operations.ns() + static_cast<uint64_t>(path.total.count()));
  }
  for (auto& [kind, operations] : kinds) {
    operations.set_kind(std::string(kind));
    *mount.add_operations() = std::move(operations);
  }
}

}  // namespace kintsugi::mount
