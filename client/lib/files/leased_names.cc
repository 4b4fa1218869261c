#include "client/lib/files/leased_names.h"

#include <algorithm>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr size_t kMaxNameBytes = 255, kMaxTargetBytes = 4095;
constexpr uint32_t kSetGid = 02000, kGroupExecute = 010, kOwnerWritesAndSearches = 0300;

bool is_usual_name(std::string_view name) {
  // The metaserver may give names that begin with .snapshots or .trash a meaning of their own.
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos && !name.starts_with(".snapshots") &&
         !name.starts_with(".trash");
}

constexpr sight::Site kWriteNames{"client.write_names"}, kReserveInodes{"client.reserve_inodes"};

/// Nothing that the metaserver would have to look at keeps the caller from changing names in the directory.
bool may_change(const proto::Attributes& directory, const proto::Caller& caller) {
  return caller.uid() == 0 || (caller.uid() == directory.uid() &&
                               (directory.mode() & kOwnerWritesAndSearches) == kOwnerWritesAndSearches);
}

}  // namespace

LeasedNames::LeasedNames(Resources& resources, Session& session, InodeCalls& calls, runtime::TaskGroup& tasks,
                         std::span<std::byte> region, size_t max_names)
    : resources_(resources),
      session_(session),
      calls_(calls),
      tasks_(tasks),
      max_names_(max_names),
      log_(region),
      written_(resources.runtime) {
  // A process before this one may have left changes. They are written out first; which names its directories have is not known.
  for (size_t i = 0; i < log_.size(); ++i) {
    const proto::NameChange& change = log_.at(i);
    ++changes_of_[change.inode()];
    if (change.has_make() && change.tag() != 0) made_before_[change.tag()] = change.inode();
    if (change.has_unlink() && change.tag() != 0) unlinked_before_[change.tag()] = change.inode();
    // A metaserver that starts anew must be told under which leases it was done.
    const uint64_t leased = change.has_make()     ? change.make().parent()
                            : change.has_unlink() ? change.unlink().parent()
                                                  : change.inode();
    if (!session_.is_unknown(leased)) session_.took_over_lease(leased);
    if (change.has_make() && change.make().lease()) session_.made(change.inode());
  }
  appended_ = log_.size();
}

// ---- directories

void LeasedNames::leased(const proto::Attributes& directory, const std::string& file_policy) {
  directories_[directory.inode()] = {directory, true, file_policy, {}};
  if (directories_.size() > kMaxDirectories) make_room();
  if (ids_.empty() && !std::exchange(reserving_, true)) tasks_.spawn(reserve());
}

void LeasedNames::forget(uint64_t directory) {
  const auto found = directories_.find(directory);
  if (found == directories_.end()) return;
  names_ -= found->second.names.size();
  directories_.erase(found);
}

void LeasedNames::told(const proto::Attributes& directory) {
  const auto found = directories_.find(directory.inode());
  // An answer may have been overtaken by what was made here meanwhile.
  if (found == directories_.end() || directory.changed_ns() < found->second.attributes.changed_ns()) return;
  found->second.attributes = directory;
  found->second.is_current = true;
}

void LeasedNames::may_have_changed(uint64_t directory) {
  if (const auto found = directories_.find(directory); found != directories_.end())
    found->second.is_current = false;
}

const proto::Attributes* LeasedNames::directory(uint64_t inode) const {
  const auto found = directories_.find(inode);
  return found == directories_.end() || !found->second.is_current ? nullptr : &found->second.attributes;
}

bool LeasedNames::is_absent(uint64_t parent, std::string_view name) const {
  const auto directory = directories_.find(parent);
  return directory != directories_.end() && is_usual_name(name) && !directory->second.names.contains(name);
}

const proto::Attributes* LeasedNames::made(uint64_t inode) const {
  const auto found = made_.find(inode);
  return found == made_.end() ? nullptr : &found->second;
}

void LeasedNames::name_given(uint64_t parent, std::string_view name) {
  const auto directory = directories_.find(parent);
  if (directory == directories_.end()) return;
  directory->second.is_current = false;
  // It may take the place of another inode.
  if (directory->second.names.insert_or_assign(std::string(name), Named{}).second) ++names_;
  if (names_ > max_names_) make_room();
}

void LeasedNames::name_taken(uint64_t parent, std::string_view name) {
  const auto directory = directories_.find(parent);
  if (directory == directories_.end()) return;
  directory->second.is_current = false;
  const auto found = directory->second.names.find(name);
  if (found == directory->second.names.end()) return;
  directory->second.names.erase(found);
  --names_;
}

asio::awaitable<Result<proto::Attributes>> LeasedNames::lookup(Context context,
                                                               proto::LookupRequest request) {
  if (is_absent(request.parent(), request.name())) co_return Status{Code::kNotFound, "does not exist"};
  if (const auto directory = directories_.find(request.parent()); directory != directories_.end()) {
    const auto found = directory->second.names.find(request.name());
    const auto* attributes = found == directory->second.names.end() ? nullptr : made(found->second.inode);
    if (attributes != nullptr) co_return *attributes;
  }
  co_return co_await calls_.lookup(context, std::move(request));
}

asio::awaitable<Result<proto::Attributes>> LeasedNames::make(Context context, proto::MakeInodeRequest request,
                                                             uint64_t tag) {
  // The kernel asks once more for what a process before this one had answered nobody.
  if (const auto before = made_before_.find(tag); before != made_before_.end()) {
    const bool hold = request.hold_for() != 0;
    co_return co_await calls_.get(context, before->second, hold, hold);
  }
  if (auto made = make_here(request, tag)) co_return std::move(*made);
  const uint64_t parent = request.parent();
  name_given(parent, request.name());
  auto made = co_await calls_.make(context, std::move(request), tag);
  may_have_changed(parent);  // again: somebody may have asked for it while the call was under way
  co_return made;
}

asio::awaitable<Result<proto::Attributes>> LeasedNames::link(Context context, proto::LinkRequest request,
                                                             uint64_t tag) {
  const uint64_t parent = request.parent();
  name_given(parent, request.name());
  if (linked_.size() < kMaxLinked) {
    linked_.insert(request.inode());
  } else {
    may_be_linked_ = true;
  }
  auto linked = co_await calls_.link(context, std::move(request), tag);
  may_have_changed(parent);
  co_return linked;
}

asio::awaitable<Result<uint64_t>> LeasedNames::unlink(Context context, proto::UnlinkRequest request,
                                                      uint64_t tag) {
  if (const auto before = unlinked_before_.find(tag); before != unlinked_before_.end())
    co_return before->second;
  if (const auto inode = unlink_here(request, tag)) co_return *inode;
  const uint64_t parent = request.parent();
  const std::string name = request.name();
  const auto unlinked = co_await calls_.unlink(context, std::move(request), tag);
  may_have_changed(parent);
  if (!unlinked) co_return unlinked.error();
  name_taken(parent, name);
  co_return 0;
}

asio::awaitable<Status> LeasedNames::move(Context context, proto::MoveRequest request, uint64_t tag) {
  // The old name stays among those that the metaserver is asked for: a rename between two names of one inode does nothing.
  name_given(request.parent(), request.name());
  name_given(request.to_parent(), request.to_name());
  const uint64_t from = request.parent(), to = request.to_parent();
  const auto moved = co_await calls_.move(context, std::move(request), tag);
  may_have_changed(from);
  may_have_changed(to);
  co_return moved ? Status{} : moved.error();
}

void LeasedNames::make_room() {
  std::vector<uint64_t> ids;
  for (const auto& [id, directory] : directories_)
    ids.push_back(id);
  std::ranges::sort(ids);  // ids grow: what was made first is what is most likely done with
  size_t names = names_, count = 0;
  while (count < ids.size() && (names > max_names_ / 2 || ids.size() - count > kMaxDirectories / 2))
    names -= directories_.at(ids[count++]).names.size();
  ids.resize(count);
  on_full(ids);
}

// ---- ids

asio::awaitable<void> LeasedNames::reserve() {
  const sight::BackgroundTask task(resources_.context(), kReserveInodes);
  proto::ReserveInodesRequest request;
  request.set_session(session_.id());
  request.set_count(kReserve);
  const auto reserved = co_await calls_.reserve_inodes(task.context(), std::move(request));
  reserving_ = false;
  if (!reserved) {
    log::debug("no ids are reserved: {}", reserved.error().to_string());
  } else if (reserved->count() > 0) {
    ids_.emplace_back(reserved->first(), reserved->count());
  }
}

std::optional<uint64_t> LeasedNames::take_id() {
  std::optional<uint64_t> taken;
  if (!ids_.empty()) {
    auto& [from, count] = ids_.front();
    taken = from++;
    if (--count == 0) ids_.pop_front();
  }
  // The metaserver remembers a few ranges only: one is used and one is the next.
  const bool few = ids_.empty() || (ids_.size() == 1 && ids_.front().second < kReserve / 2);
  if (few && !tasks_.stopping() && !std::exchange(reserving_, true)) tasks_.spawn(reserve());
  return taken;
}

// ---- changes

bool LeasedNames::may_make(const Directory& directory, const proto::MakeInodeRequest& request) const {
  using proto::Attributes;
  if (!is_usual_name(request.name()) || directory.names.contains(request.name())) return false;
  if (request.type() == Attributes::CHARACTER_DEVICE || request.type() == Attributes::BLOCK_DEVICE)
    return false;
  if (request.target().size() > kMaxTargetBytes || names_ >= max_names_ || tasks_.stopping()) return false;
  if (request.type() == Attributes::DIRECTORY && directories_.size() >= kMaxDirectories) return false;
  // An access list of the directory would be inherited.
  if (directory.attributes.has_xattrs()) return false;
  return may_change(directory.attributes, request.caller());
}

std::optional<uint64_t> LeasedNames::unlink_here(const proto::UnlinkRequest& request, uint64_t tag) {
  const auto parent = directories_.find(request.parent());
  if (parent == directories_.end() || request.directory() || tasks_.stopping()) return std::nullopt;
  const auto named = parent->second.names.find(request.name());
  if (named == parent->second.names.end() || named->second.inode == 0 || named->second.is_directory)
    return std::nullopt;
  // Whoever has it open by another name is to see one link fewer.
  const uint64_t inode = named->second.inode;
  if (may_be_linked_ || linked_.contains(inode)) return std::nullopt;
  if (!may_change(parent->second.attributes, request.caller())) return std::nullopt;
  const int64_t now = resources_.runtime.clock.wall_now().time_since_epoch().count();
  proto::NameChange change;
  change.set_inode(inode);
  change.set_at_ns(now);
  change.set_tag(tag);
  *change.mutable_unlink() = request;
  if (!append(std::move(change))) return std::nullopt;
  parent->second.names.erase(named);
  --names_;
  touch(parent->second, now);
  if (const auto known = made_.find(inode); known != made_.end()) {
    known->second.set_links(0);
    known->second.set_changed_ns(now);
  }
  return inode;
}

void LeasedNames::touch(Directory& directory, int64_t now_ns) {
  directory.attributes.set_modified_ns(now_ns);
  directory.attributes.set_changed_ns(now_ns);
  if (const auto known = made_.find(directory.attributes.inode()); known != made_.end())
    known->second = directory.attributes;
}

proto::Attributes LeasedNames::fresh(const Directory& directory, const proto::MakeInodeRequest& request,
                                     uint64_t inode, int64_t now_ns) const {
  // The metaserver makes the same attributes when it hears of it (Inodes::add).
  proto::Attributes made;
  const bool is_directory = request.type() == proto::Attributes::DIRECTORY;
  made.set_inode(inode);
  made.set_type(request.type());
  made.set_uid(request.caller().uid());
  made.set_gid(request.caller().gid());
  uint32_t mode = request.mode() & 07777;
  if ((directory.attributes.mode() & kSetGid) != 0) {
    const uint32_t group = directory.attributes.gid();
    const auto& groups = request.caller().groups();
    const bool in_group = request.caller().gid() == group || std::ranges::find(groups, group) != groups.end();
    made.set_gid(group);
    if (is_directory) {
      mode |= kSetGid;
    } else if (request.caller().uid() != 0 && !in_group && (mode & kGroupExecute) != 0) {
      mode &= ~kSetGid;
    }
  }
  if (request.type() == proto::Attributes::SYMLINK) {
    made.set_target(request.target());
    made.set_size(request.target().size());
    mode = 0777;
  } else {
    mode &= ~(request.umask() & 0777);
  }
  made.set_mode(mode);
  made.set_links(is_directory ? 2 : 1);
  made.set_modified_ns(now_ns);
  made.set_changed_ns(now_ns);
  made.set_accessed_ns(now_ns);
  if (request.type() == proto::Attributes::FILE) made.set_policy(directory.file_policy);
  return made;
}

bool LeasedNames::append(proto::NameChange change) {
  const uint64_t inode = change.inode();
  if (!log_.append(std::move(change))) {
    start_flush();
    return false;
  }
  ++changes_of_[inode];
  ++appended_;
  if (!waits_since_) waits_since_ = resources_.now();
  if (log_.size() >= kBeginAt) start_flush();
  return true;
}

std::optional<proto::Attributes> LeasedNames::make_here(const proto::MakeInodeRequest& request,
                                                        uint64_t tag) {
  const auto found = directories_.find(request.parent());
  if (found == directories_.end() || !may_make(found->second, request)) return std::nullopt;
  const std::optional<uint64_t> id = take_id();
  if (!id) return std::nullopt;
  const int64_t now = resources_.runtime.clock.wall_now().time_since_epoch().count();
  proto::Attributes attributes = fresh(found->second, request, *id, now);
  const bool is_directory = request.type() == proto::Attributes::DIRECTORY;
  // A file that is made and not opened has nothing to keep back, and nobody would give its lease back.
  const bool lease = is_directory || (request.type() == proto::Attributes::FILE && request.hold_for() != 0);
  proto::NameChange change;
  change.set_inode(*id);
  change.set_at_ns(now);
  change.set_tag(tag);
  *change.mutable_make() = request;
  change.mutable_make()->clear_hold_for();
  change.mutable_make()->set_lease(lease);
  if (!append(std::move(change))) return std::nullopt;
  if (lease) session_.made(*id);
  made_[*id] = attributes;
  Directory& parent = found->second;
  parent.names.emplace(request.name(), Named{*id, is_directory});
  ++names_;
  if (is_directory) parent.attributes.set_links(parent.attributes.links() + 1);
  touch(parent, now);
  if (is_directory) {
    const std::string policy = parent.file_policy;
    directories_[*id] = {attributes, true, policy, {}};
  }
  return attributes;
}

bool LeasedNames::set_attributes(proto::SetAttributesRequest request, const proto::Attributes& result) {
  proto::NameChange change;
  change.set_inode(request.inode());
  change.set_at_ns(result.changed_ns());
  *change.mutable_attributes() = std::move(request);
  if (!append(std::move(change))) return false;
  if (const auto known = made_.find(result.inode()); known != made_.end()) known->second = result;
  told(result);
  return true;
}

// ---- writing out

void LeasedNames::start_flush() {
  if (log_.empty() || tasks_.stopping() || std::exchange(in_background_, true)) return;
  tasks_.spawn(flush_in_background());
}

void LeasedNames::tick(Duration at_most) {
  if (waits_since_ && resources_.now() - *waits_since_ >= at_most) start_flush();
}

asio::awaitable<void> LeasedNames::flush_in_background() {
  const sight::Task task(resources_.context(), kWriteNames);
  const Status status = co_await flush(task.context());
  in_background_ = false;
  if (!status.ok()) log::debug("names are written later: {}", status.to_string());
}

asio::awaitable<Status> LeasedNames::flush(Context context) {
  const uint64_t last = appended_;
  while (dropped_ < last) {
    if (writing_) {
      const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, writing_span_);
      co_await written_.wait();
      continue;
    }
    writing_ = true;
    writing_span_ = context.trace.span_id;
    const Status status = co_await write_some(context);
    writing_ = false;
    written_.notify_all();
    if (!status.ok()) co_return status;
  }
  co_return Status{};
}

asio::awaitable<Status> LeasedNames::write_some(Context context) {
  proto::WriteNamesRequest request;
  fill(request, std::min(log_.size(), kAtOnce));
  const auto answer = co_await calls_.write_names(context, request);
  if (!answer) co_return answer.error();
  co_return take(request, *answer);
}

bool LeasedNames::write_along(const Context& context, proto::WriteNamesRequest& request) {
  if (writing_ || log_.empty() || !is_little()) return false;
  writing_ = true;
  writing_span_ = context.trace.span_id;
  fill(request, log_.size());
  return true;
}

void LeasedNames::written_along(const proto::WriteNamesRequest& request,
                                const proto::WriteNamesResponse* answer) {
  if (answer) {
    const Status taken = take(request, *answer);
    if (!taken.ok()) log::warning("names are written again: {}", taken.to_string());
  }
  writing_ = false;
  written_.notify_all();
}

void LeasedNames::fill(proto::WriteNamesRequest& request, size_t count) {
  request.set_session(session_.id());
  for (size_t i = 0; i < count; ++i) {
    proto::NameChange& change = *request.add_changes();
    change = log_.at(i);
    if (!change.has_make()) continue;
    if (session_.is_held(change.inode())) change.mutable_make()->set_hold_for(session_.id());
    if (!session_.has_lease(change.inode())) change.mutable_make()->set_lease(false);
  }
}

Status LeasedNames::take(const proto::WriteNamesRequest& request, const proto::WriteNamesResponse& answer) {
  if (answer.changes_size() != request.changes_size())
    return {Code::kCorrupt, "the metaserver answered something else than it was asked"};
  const auto count = static_cast<size_t>(request.changes_size());
  log_.drop(count);
  dropped_ += count;
  waits_since_.reset();
  if (!log_.empty()) waits_since_ = resources_.now();
  for (int i = 0; i < request.changes_size(); ++i)
    written(request.changes(i), answer.changes(i));
  return {};
}

void LeasedNames::written(const proto::NameChange& change,
                          const proto::WriteNamesResponse::Written& written) {
  const uint64_t inode = change.inode();
  const auto count = changes_of_.find(inode);
  const bool last = --count->second == 0;
  if (last) changes_of_.erase(count);
  const Status status{static_cast<Code>(written.code()), "is not taken by the metaserver"};
  if (change.has_make()) {
    session_.known(inode);
    // It was closed meanwhile, and the word of that may have come first.
    if (change.make().hold_for() != 0 && !session_.is_held(inode)) session_.release_again(inode);
    made_.erase(inode);
    if (!status.ok()) {
      log::warning("'{}', made in directory {}, is lost: {}", change.make().name(), change.make().parent(),
                   status.to_string());
      name_taken(change.make().parent(), change.make().name());
      forget(inode);
      on_refused(inode, status);
      return;
    }
    if (change.make().type() == proto::Attributes::DIRECTORY && !written.lease()) forget(inode);
  }
  if (change.has_unlink() && !status.ok()) {
    log::warning("'{}' in directory {} is not removed: {}", change.unlink().name(), change.unlink().parent(),
                 status.to_string());
    name_given(change.unlink().parent(), change.unlink().name());
  }
  if (status.ok() && last && written.has_attributes()) on_written(written.attributes(), written.lease());
}

}  // namespace kintsugi::client
