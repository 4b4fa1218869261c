#include "metaserver/sessions/leased_locks.h"

#include <set>

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kEnd = (uint64_t{1} << 63) - 1;
/// The owner of locks that a session may have had when it lost its lease.
constexpr uint64_t kUnknownOwner = ~uint64_t{0};

proto::FileLock whatever_it_has(uint64_t session, proto::FileLock::Type type) {
  proto::FileLock lock;
  lock.set_type(type);
  lock.set_end(kEnd);
  lock.set_session(session);
  lock.set_owner(kUnknownOwner);
  return lock;
}

}  // namespace

void LeasedLocks::lost(uint64_t session, InodeId inode) {
  for (const bool whole_file : {false, true})
    locks_.add_beside(inode, whatever_it_has(session, proto::FileLock::EXCLUSIVE), whole_file);
}

void LeasedLocks::keep(const proto::KeepSessionRequest& request, bool unknown, bool doubtful,
                       proto::KeepSessionResponse& response) {
  const uint64_t session = request.session();
  std::set<InodeId> told;  // inodes of which it says everything: what is known here is older
  const auto tells = [&](InodeId inode) {
    if (leases_.has_to_tell(inode, session) && told.insert(inode).second) locks_.forget(inode, session);
  };
  for (const uint64_t inode : request.locks_of())
    tells(InodeId{inode});
  if (request.ask_locks()) {
    for (const proto::HeldLock& held : locks_.of(session))
      tells(InodeId{held.inode()});
    for (const proto::HeldLock& held : request.lock())
      tells(InodeId{held.inode()});
  }
  for (const uint64_t inode : request.give_back())
    for (const bool whole_file : {false, true})
      (void)locks_.set(InodeId{inode}, whatever_it_has(session, proto::FileLock::NONE), whole_file);
  const bool stale = unknown && doubtful;
  for (const proto::HeldLock& held : request.lock()) {
    const InodeId inode{held.inode()};
    const bool news = told.contains(inode) || (unknown && request.all());
    if (!news || held.lock().session() != session) continue;
    const bool others = leases_.owned_by_another(inode, session) || stale;
    Result<bool> has_it = false;
    if (!others) has_it = locks_.set(inode, held.lock(), held.whole_file());
    // It must not continue telling what somebody else has got meanwhile.
    if (!request.ask_locks() && has_it && !*has_it) *response.add_lock() = held;
  }
  if (request.ask_locks()) {
    for (proto::HeldLock& held : locks_.of(session))
      *response.add_lock() = std::move(held);
  }
}

}  // namespace kintsugi::metaserver
