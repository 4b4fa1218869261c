#include "client/lib/leases/leased_names.h"

#include <algorithm>

#include "client/lib/leases/new_inode.h"
#include "common/log/log.h"

namespace kintsugi::client {
namespace {

constexpr size_t kMaxNameBytes = 255, kMaxTargetBytes = 4095;
constexpr uint32_t kOwnerWritesAndSearches = 0300;

bool is_usual_name(std::string_view name) {
  // The metaserver may give names that begin with .snapshots or .trash a meaning of their own.
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos && !name.starts_with(".snapshots") &&
         !name.starts_with(".trash");
}

/// Nothing that the metaserver would have to look at keeps the caller from changing names in the directory.
bool may_change(const proto::Attributes& directory, const proto::Caller& caller) {
  return caller.uid() == 0 || (caller.uid() == directory.uid() &&
                               (directory.mode() & kOwnerWritesAndSearches) == kOwnerWritesAndSearches);
}

}  // namespace

LeasedNames::LeasedNames(Resources& resources, InodeCalls& calls, UnsentNames& unsent, ReservedIds& ids,
                         LeaseUser& user, Options options)
    : resources_(resources),
      session_(calls.session()),
      calls_(calls),
      unsent_(unsent),
      ids_(ids),
      user_(user),
      options_(options) {
  unsent_.set_hearer(*this);
  // A process before this one may have left changes. They are written out first; which names its directories have is not known.
  WriteLeases& leases = session_.leases();
  for (size_t i = 0; i < unsent_.log().size(); ++i) {
    const proto::NameChange& change = unsent_.log().at(i);
    if (change.has_make() && change.tag() != 0) made_before_[change.tag()] = change.inode();
    if (change.has_unlink() && change.tag() != 0) unlinked_before_[change.tag()] = change.inode();
    // A metaserver that starts anew must be told under which leases it was done.
    const uint64_t leased = change.has_make()     ? change.make().parent()
                            : change.has_unlink() ? change.unlink().parent()
                                                  : change.inode();
    if (!leases.is_unknown(leased)) leases.took_over(leased);
    if (change.has_make() && change.make().lease()) leases.made(change.inode());
  }
}

// ---- directories

void LeasedNames::leased(const proto::Attributes& directory, const std::string& file_policy) {
  directories_[directory.inode()] = {directory, true, file_policy, {}};
  if (directories_.size() > kMaxDirectories) make_room();
  ids_.prepare();
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
  meanwhile_.give(parent, name);
  const auto directory = directories_.find(parent);
  if (directory == directories_.end()) return;
  directory->second.is_current = false;
  // It may take the place of another inode.
  if (directory->second.names.insert_or_assign(std::string(name), Named{}).second) ++names_;
  if (names_ > options_.max_names) make_room();
}

void LeasedNames::name_taken(uint64_t parent, std::string_view name) {
  const auto directory = directories_.find(parent);
  if (directory == directories_.end()) return;
  directory->second.is_current = false;
  names_ -= directory->second.names.erase(std::string(name));
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
  std::optional<std::string> file_policy;
  const bool wants_lease = options_.lease_directories && request.type() == proto::Attributes::DIRECTORY;
  const NamesMeanwhile::Call call(meanwhile_);
  auto made = co_await calls_.make(context, std::move(request), tag, wants_lease ? &file_policy : nullptr);
  may_have_changed(parent);  // again: somebody may have asked for it while the call was under way
  // Somebody may have found it before this answer came, and have given names in it.
  if (made && file_policy && !call.may_have_given(made->inode())) leased(*made, *file_policy);
  co_return made;
}

asio::awaitable<Result<proto::Attributes>> LeasedNames::link(Context context, proto::LinkRequest request,
                                                             uint64_t tag) {
  const uint64_t parent = request.parent();
  name_given(parent, request.name());
  may_be_linked_ = may_be_linked_ || linked_.size() >= kMaxLinked;
  if (!may_be_linked_) linked_.insert(request.inode());
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
  const NamesMeanwhile::Call call(meanwhile_);
  const auto unlinked = co_await calls_.unlink(context, std::move(request), tag);
  may_have_changed(parent);
  if (!unlinked) co_return unlinked.error();
  if (!call.may_have_given(parent, name)) name_taken(parent, name);
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
  while (count < ids.size() && (names > options_.max_names / 2 || ids.size() - count > kMaxDirectories / 2))
    names -= directories_.at(ids[count++]).names.size();
  ids.resize(count);
  user_.end_leases(ids);
}

// ---- changes

bool LeasedNames::may_make(const Directory& directory, const proto::MakeInodeRequest& request) const {
  using proto::Attributes;
  if (!is_usual_name(request.name()) || directory.names.contains(request.name())) return false;
  if (request.type() == Attributes::CHARACTER_DEVICE || request.type() == Attributes::BLOCK_DEVICE)
    return false;
  if (request.target().size() > kMaxTargetBytes || names_ >= options_.max_names || unsent_.stopping())
    return false;
  if (request.type() == Attributes::DIRECTORY && directories_.size() >= kMaxDirectories) return false;
  // An access list of the directory would be inherited.
  if (directory.attributes.has_xattrs()) return false;
  return may_change(directory.attributes, request.caller());
}

std::optional<uint64_t> LeasedNames::unlink_here(const proto::UnlinkRequest& request, uint64_t tag) {
  const auto parent = directories_.find(request.parent());
  if (parent == directories_.end() || request.directory() || unsent_.stopping()) return std::nullopt;
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
  if (!unsent_.append(std::move(change))) return std::nullopt;
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

std::optional<proto::Attributes> LeasedNames::make_here(const proto::MakeInodeRequest& request,
                                                        uint64_t tag) {
  const auto found = directories_.find(request.parent());
  if (found == directories_.end() || !may_make(found->second, request)) return std::nullopt;
  const std::optional<uint64_t> id = ids_.take();
  if (!id) return std::nullopt;
  const int64_t now = resources_.runtime.clock.wall_now().time_since_epoch().count();
  proto::Attributes attributes =
      new_inode(found->second.attributes, found->second.file_policy, request, *id, now);
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
  if (!unsent_.append(std::move(change))) return std::nullopt;
  if (lease) session_.leases().made(*id);
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
  if (!unsent_.append(std::move(change))) return false;
  if (const auto known = made_.find(result.inode()); known != made_.end()) known->second = result;
  told(result);
  return true;
}

// ---- what became of changes

void LeasedNames::carried_out(const proto::NameChange& change,
                              const proto::WriteNamesResponse::Written& written, bool last) {
  const uint64_t inode = change.inode();
  const Status status{static_cast<Code>(written.code()), "is not taken by the metaserver"};
  const uint64_t parent = change.has_make() ? change.make().parent() : change.unlink().parent();
  // Without the lease the next ones are refused at once.
  if (status.code() == Code::kAccessDenied && session_.leases().has(parent)) user_.end_leases({parent});
  if (change.has_make()) {
    session_.leases().known(inode);
    // It was closed meanwhile, and the word of that may have come first.
    if (change.make().hold_for() != 0 && !session_.held().is_held(inode))
      session_.held().release_again(inode);
    made_.erase(inode);
    if (!status.ok()) return make_refused(change, status);
    if (change.make().type() == proto::Attributes::DIRECTORY && !written.lease()) forget(inode);
  }
  if (change.has_unlink() && !status.ok()) {
    log::warning("'{}' in directory {} is not removed: {}", change.unlink().name(), change.unlink().parent(),
                 status.to_string());
    name_given(change.unlink().parent(), change.unlink().name());
  }
  if (change.has_attributes() && !status.ok()) {
    may_have_changed(inode);
    user_.on_attributes_refused(inode, status);
  }
  if (status.ok() && last && written.has_attributes())
    user_.on_written(written.attributes(), written.lease());
}

void LeasedNames::make_refused(const proto::NameChange& change, const Status& why) {
  log::warning("'{}', made in directory {}, is lost: {}", change.make().name(), change.make().parent(),
               why.to_string());
  // A call that gives it to another inode may be under way.
  name_given(change.make().parent(), change.make().name());
  forget(change.inode());
  user_.on_refused(change.inode(), why);
}

}  // namespace kintsugi::client
