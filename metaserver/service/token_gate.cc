#include "metaserver/service/token_gate.h"

#include <algorithm>
#include <span>

#include "common/proto/repair.pb.h"
#include "metaserver/namespace/ancestors.h"
#include "metaserver/namespace/changes.h"
#include "metaserver/service/token_targets.h"

namespace kintsugi::metaserver {
namespace {

using google::protobuf::MessageLite;
using rpc::Method;
using rpc::Principal;

Status stale(uint64_t inode) {
  return {Code::kStale, fmt::format("inode {} does not exist any more", inode)};
}

Status outside_of(const Principal& by, std::string_view what) {
  return {Code::kAccessDenied,
          fmt::format("{} is outside of {}, and {} is for nothing else", what, by.path, by.text())};
}

/// Somebody other than root may do all of `wanted`. Its owner may change the mode.
bool is_open_to_others(const proto::StoredInode& inode, uint32_t wanted) {
  if (inode.uid() != 0) return true;
  const uint32_t others = inode.mode() & 7, group = inode.mode() >> 3 & 7;
  return (others & wanted) == wanted || (inode.gid() != 0 && (group & wanted) == wanted);
}

/// Takes out of a request what a token must not have that changes nothing, or whose user 0 is not root.
Status withhold_leases(const Principal& by, Method method, MessageLite& request) {
  Status refused{Code::kPermissionDenied, by.text() + " gets no write leases"};
  switch (method) {
    case Method::kGetInode: static_cast<proto::GetInodeRequest&>(request).set_lease(false); return {};
    case Method::kMakeInode: static_cast<proto::MakeInodeRequest&>(request).set_lease(false); return {};
    case Method::kKeepSession: {
      // Nor does it give one back, upon which it would be told of changes in there.
      auto& keep = static_cast<proto::KeepSessionRequest&>(request);
      keep.clear_lease();
      keep.clear_give_back();
      keep.clear_locks_of();
      return {};
    }
    case Method::kWriteNames: return refused;
    case Method::kWriteExtents:
      return request_as<proto::WriteExtentsRequest>(request).has_names() ? refused : Status{};
    default: return {};
  }
}

/// A lock is given back also when its file has left the path, so that others get it.
bool gives_lock_back(Method method, const MessageLite& request) {
  if (method != Method::kLock) return false;
  const auto& wanted = request_as<proto::LockRequest>(request);
  return wanted.lock().type() == proto::FileLock::NONE && !wanted.test_only();
}

/// Locks that keep others from reading are no reader's.
Status check_lock(const Principal& by, Method method, const MessageLite& request) {
  if (by.role != rpc::Role::kRead) return {};
  Status refused{Code::kPermissionDenied, by.text() + " may only read: it gets no exclusive locks"};
  const auto exclusive = [](const proto::FileLock& lock) {
    return lock.type() == proto::FileLock::EXCLUSIVE;
  };
  if (method == Method::kLock) {
    const auto& wanted = request_as<proto::LockRequest>(request);
    return exclusive(wanted.lock()) && !wanted.test_only() ? refused : Status{};
  }
  if (method == Method::kKeepSession)
    for (const proto::HeldLock& held : request_as<proto::KeepSessionRequest>(request).lock())
      if (exclusive(held.lock())) return refused;
  return {};
}

}  // namespace

/// The path of a token, as it lies now.
struct TokenGate::Scope {
  Path path;
  std::vector<InodeId> trail;  ///< inodes of its names, as far as they exist, the root first

  /// 0: the path does not exist.
  InodeId inode() const { return trail.size() == path.names.size() + 1 ? trail.back() : InodeId{}; }
  bool holds(const Path& other, bool below) const {
    const size_t least = path.names.size() + (below ? 1 : 0);
    return other.names.size() >= least &&
           std::equal(path.names.begin(), path.names.end(), other.names.begin());
  }
};

Status TokenGate::admit(const Principal& by, Method method, MessageLite& request) const {
  if (by.role == rpc::Role::kRead || !by.is_unrestricted())
    KINTSUGI_TRY(withhold_leases(by, method, request));
  KINTSUGI_TRY(check_lock(by, method, request));
  if (by.squash) {
    if (method == Method::kGetInode &&
        !check_others(request_as<proto::GetInodeRequest>(request).inode(), kMayRead).ok())
      static_cast<proto::GetInodeRequest&>(request).set_where(false);
    KINTSUGI_TRY(check_squashed(method, request));
  }
  // Its trees would name servers for others to dial, which chunkservers take from no token (RepairService).
  if (method == Method::kPlanRead)
    static_cast<proto::PlanReadRequest&>(request).set_shape(proto::RepairShape::STAR);
  // It could be of any file.
  if (method == Method::kReportChunk && !by.is_unrestricted())
    return {Code::kPermissionDenied,
            by.text() + " may not report chunks: root of its host is not root, or it has a path"};
  return by.path.empty() ? Status{} : check_scope(by, method, request);
}

void TokenGate::forget_what_is_outside(const Principal& by, const Scope& scope,
                                       proto::KeepSessionRequest& request) const {
  const auto is_outside = [&](uint64_t inode) { return !check_inside(by, scope, inode).ok(); };
  auto& hold = *request.mutable_hold();
  hold.erase(std::remove_if(hold.begin(), hold.end(), is_outside), hold.end());
  auto& locks = *request.mutable_lock();
  const auto is_lock_outside = [&](const proto::HeldLock& lock) { return is_outside(lock.inode()); };
  locks.erase(std::remove_if(locks.begin(), locks.end(), is_lock_outside), locks.end());
}

Status TokenGate::check_scope(const Principal& by, Method method, MessageLite& request) const {
  if (method == Method::kLink) KINTSUGI_TRY(check_link(by, request_as<proto::LinkRequest>(request)));
  KINTSUGI_ASSIGN(Path path, Path::parse(by.path));
  Scope scope{std::move(path), {}};
  (void)walk(Reader(store_), scope.path.names, &scope.trail);
  if (method == Method::kKeepSession) {
    forget_what_is_outside(by, scope, static_cast<proto::KeepSessionRequest&>(request));
    return {};
  }
  const std::optional<Targets> targets = targets_of(method, request);
  if (!targets)
    return {Code::kPermissionDenied, fmt::format("{} is not for one path, and {} is for {} only",
                                                 rpc::method_name(method), by.text(), by.path)};
  const auto check_paths = [&](const std::vector<std::string>& paths, bool below) -> Status {
    for (const std::string& text : paths) {
      KINTSUGI_ASSIGN(const Path wanted, Path::parse(text));
      if (!scope.holds(wanted, below)) return outside_of(by, text);
    }
    return {};
  };
  if (is_on_the_way(scope, method, request) || gives_lock_back(method, request)) return {};
  KINTSUGI_TRY(check_paths(targets->paths, false));
  KINTSUGI_TRY(check_paths(targets->renamed, true));
  for (const uint64_t inode : targets->inodes)
    KINTSUGI_TRY(check_inside(by, scope, inode));
  return {};
}

Status TokenGate::check_link(const Principal& by, const proto::LinkRequest& request) const {
  const auto inode = Reader(store_).get_message<proto::StoredInode>(keys::inode(InodeId{request.inode()}));
  const bool is_first = !inode || inode->links() == 0;
  if (is_first || carried_out(Reader(store_), request.change())) return {};
  return {Code::kNotPermitted,
          "a file of several names is outside of every path, so " + by.text() + " may give no second one"};
}

bool TokenGate::is_on_the_way(const Scope& scope, Method method, MessageLite& request) const {
  const auto above = std::span(scope.trail).first(scope.trail.size() - (scope.inode() ? 1 : 0));
  const auto find = [&](uint64_t inode) { return std::ranges::find(above, InodeId{inode}); };
  if (method == Method::kStat) {
    const Result<Path> path = Path::parse(request_as<proto::StatRequest>(request).path());
    return path && path->names.size() < scope.path.names.size() &&
           std::equal(path->names.begin(), path->names.end(), scope.path.names.begin());
  }
  if (method == Method::kGetQuotas)
    return find(request_as<proto::GetQuotasRequest>(request).inode()) != above.end();
  if (method == Method::kGetXattr) {
    // The kernel wants it to see who may pass.
    const auto& wanted = request_as<proto::GetXattrRequest>(request);
    return find(wanted.inode()) != above.end() && wanted.name() == kAccessList;
  }
  if (method == Method::kGetInode) {
    auto& wanted = static_cast<proto::GetInodeRequest&>(request);
    if (find(wanted.inode()) == above.end()) return false;
    wanted.set_lease(false);
    wanted.set_where(false);
    return true;
  }
  if (method != Method::kLookup) return false;
  auto& wanted = static_cast<proto::LookupRequest&>(request);
  const auto at = find(wanted.parent());
  if (at == above.end() || scope.path.names[static_cast<size_t>(at - above.begin())] != wanted.name())
    return false;
  wanted.set_session(0);  // else it would be told of all names that change there
  return true;
}

Status TokenGate::check_inside(const Principal& by, const Scope& scope, uint64_t inode) const {
  const auto outside = [&] { return outside_of(by, fmt::format("inode {}", inode)); };
  if (!scope.inode()) return outside();
  InodeId id{inode};
  if (SnapshotInode::is(id)) {
    const SnapshotInode in = SnapshotInode::of(id);
    const auto snapshot = snapshots_.in_slot(in.slot);
    if (in.slot != 0 && !(snapshot && is_below(snapshot->directory, id))) return outside();
    id = in.slot == 0 ? in.id : snapshot->directory;
  }
  const Reader reader(store_);
  const auto stored = reader.get_message<proto::StoredInode>(keys::inode(id));
  if (!stored) return stale(inode);
  // It need not be the directory above it that is noted.
  if (stored->linked() && !is_directory(*stored)) return outside();
  return walk_up_to(reader, id, scope.inode()) == WalkEnd::kStopped ? Status{} : outside();
}

bool TokenGate::is_below(InodeId directory, InodeId in_snapshot) const {
  // The place may be of any inode that was there by then: snapshots share what has not changed since, wherever it lies.
  const Result<Place> place = places_.of(in_snapshot);
  if (!place) return false;
  const Reader reader(place->view());
  const auto inode = reader.get_message<proto::StoredInode>(keys::inode(place->id()));
  if (!inode || (inode->linked() && !is_directory(*inode))) return false;
  return walk_up_to(reader, place->id(), directory) == WalkEnd::kStopped;
}

Status TokenGate::check_squashed(Method method, const MessageLite& request) const {
  switch (method) {
    case Method::kOpenRead: {
      const uint64_t inode = request_as<proto::OpenReadRequest>(request).inode();
      return inode == 0 ? Status{} : check_others(inode, kMayRead);
    }
    case Method::kListInode:
      return check_others(request_as<proto::ListInodeRequest>(request).directory(), kMayRead);
    case Method::kSetAttributes: {
      // The kernel of the client's host says that it was opened so.
      const auto& wanted = request_as<proto::SetAttributesRequest>(request);
      return wanted.opened_for_writing() ? check_others(wanted.inode(), kMayWrite) : Status{};
    }
    case Method::kCopyExtents:
      KINTSUGI_TRY(check_others(request_as<proto::CopyExtentsRequest>(request).from(), kMayRead));
      return check_others(request_as<proto::CopyExtentsRequest>(request).to(), kMayWrite);
    case Method::kWriteExtents: {
      const auto& wanted = request_as<proto::WriteExtentsRequest>(request);
      KINTSUGI_TRY(check_others(wanted.inode(), kMayWrite));
      for (const proto::FileExtents& more : wanted.more())
        KINTSUGI_TRY(check_others(more.inode(), kMayWrite));
      return {};
    }
    default: return {};
  }
}

Status TokenGate::check_others(uint64_t id, uint32_t wanted) const {
  const Result<Place> place = places_.of(InodeId{id});
  if (!place) return place.error();
  const Reader reader(place->view());
  const auto inode = reader.get_message<proto::StoredInode>(keys::inode(place->id()));
  if (!inode) return stale(id);
  const auto may_pass = [](InodeId, const proto::StoredInode& above) {
    return is_open_to_others(above, kMayExecute);
  };
  const bool open =
      is_open_to_others(*inode, wanted) &&
      (place->id() == kRootInode || walk_up(reader, InodeId{inode->parent()}, may_pass) != WalkEnd::kStopped);
  return open ? Status{}
              : Status{Code::kAccessDenied,
                       fmt::format("inode {} is root's alone, and root of this host is not root here", id)};
}

}  // namespace kintsugi::metaserver
