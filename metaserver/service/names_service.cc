#include "metaserver/service/names_service.h"

#include "metaserver/namespace/change_time.h"
#include "metaserver/namespace/ops/attributes.h"
#include "metaserver/namespace/ops/links.h"
#include "metaserver/namespace/ops/make.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kReserve{"metaserver.reserve_inodes", {}, {"inodes"}};
constexpr sight::Site kWriteNames{"metaserver.write_names", {"changes"}};

/// What tells that the same may succeed later.
bool may_pass(Code code) {
  return code == Code::kUnavailable || code == Code::kDeadlineExceeded || code == Code::kCancelled;
}

/// Without the target of a link, which the client knows: those of many links would not fit into one answer.
proto::Attributes attributes_of(InodeId id, const proto::StoredInode& inode) {
  proto::Attributes attributes = to_attributes(id, inode);
  attributes.clear_target();
  return attributes;
}

}  // namespace

void NamesService::register_on(rpc::Server& server) {
  server.handle<&NamesService::reserve_inodes>(rpc::Method::kReserveInodes, *this);
  server.handle<&NamesService::write_names>(rpc::Method::kWriteNames, *this);
}

asio::awaitable<Status> NamesService::reserve_inodes(Context context,
                                                     const proto::ReserveInodesRequest& request,
                                                     proto::ReserveInodesResponse& response) {
  sight::Module module{context, kReserve};
  if (request.session() == 0 || clients_.sessions.has_to_tell(request.session()))
    co_return module.finish({Code::kUnavailable, "the session is not known: it must report what it holds"});
  ReservedInodes reserved;
  Status taken = request.count() == 0 ? Status{Code::kInvalidArgument, "no ids are asked for"} : Status{};
  while (taken.ok() && reserved.count < std::min(request.count(), kMaxReserved)) {
    const uint64_t next = names_.inode_ids.next();
    // The range of consecutive ids ends here.
    if (reserved.count > 0 && next != reserved.first + reserved.count) break;
    const Result<uint64_t> id = names_.inode_ids.take();
    if (!id && reserved.count == 0) taken = id.error();
    if (!id) break;
    if (reserved.count == 0) reserved.first = *id;
    // An id that is not consecutive with the others is never used.
    if (*id != reserved.first + reserved.count) break;
    ++reserved.count;
  }
  Transaction transaction(store_.kv);
  if (taken.ok()) note_reserved(transaction, request.session(), reserved);
  response.set_first(reserved.first);
  response.set_count(reserved.count);
  module.output(0, reserved.count);
  co_return module.finish(co_await store_.finish(module.context(), taken, transaction));
}

void NamesService::grant(const proto::StoredInode& inode, InodeId id, Round& round, Written& written) {
  written.set_lease(lease_grants_.may_keep_back(inode) && clients_.leases.grant(round.session, id));
  if (written.lease()) round.granted.push_back(id);
}

Status NamesService::make(Transaction& transaction, const proto::NameChange& change, Round& round,
                          Written& written) {
  const proto::MakeInodeRequest& request = change.make();
  const InodeId id{change.inode()}, parent{request.parent()};
  const auto has_it = [id](const ReservedInodes& ids) { return ids.contains(id.value); };
  if (std::ranges::none_of(round.reserved, has_it))
    return {Code::kInvalidArgument, "is no id that was reserved for this client"};
  if (const auto there = transaction.get_message<proto::StoredInode>(keys::inode(id))) {
    *written.mutable_attributes() = attributes_of(id, *there);
    // A metaserver that has started anew since does not know of the lease; nobody can have come by the directory above.
    const bool ours = clients_.leases.owns(id, round.session) ||
                      (is_directory(*there) && clients_.leases.owns(parent, round.session) &&
                       clients_.leases.inherit(round.session, id));
    written.set_lease(ours);
    return {};
  }
  if (!proto::Attributes::Type_IsValid(request.type()) ||
      request.type() == proto::Attributes::CHARACTER_DEVICE ||
      request.type() == proto::Attributes::BLOCK_DEVICE || request.name().empty())
    return {Code::kInvalidArgument, "cannot be made under a directory lease"};
  NewInode wanted = NewInode::from(request);
  wanted.id = id;
  wanted.at_ns = change.at_ns();
  auto policy = round.policies.find(parent);
  if (policy == round.policies.end())
    policy = round.policies.emplace(parent, names_.policies.of_directory(store_.kv, parent)).first;
  if (request.type() == proto::Attributes::FILE) wanted.policy = policy->second;
  const auto made =
      ops::make(names_.inodes, transaction, Caller::from(request.caller()), parent, request.name(), wanted);
  if (!made) return made.error();
  const auto stored = transaction.get_message<proto::StoredInode>(keys::inode(id));
  *written.mutable_attributes() = attributes_of(id, *stored);
  if (is_directory(*stored)) {
    if (!clients_.leases.inherit(round.session, id))
      return {Code::kLimitExceeded, "would be one lease of a directory too many"};
    written.set_lease(true);
    round.granted.push_back(id);
    round.policies.emplace(id, policy->second);
  } else if (request.lease()) {
    grant(*stored, id, round, written);
  }
  return {};
}

Status NamesService::unlink(Transaction& transaction, const proto::NameChange& change, Round& round,
                            Written& written) {
  const InodeId id{change.inode()}, parent{change.unlink().parent()};
  const auto entry =
      transaction.get_message<proto::StoredDirectoryEntry>(keys::entry(parent, change.unlink().name()));
  // The name may be another inode's by now: this one has lost it before.
  if (entry && entry->inode() == id.value) {
    if (!clients_.leases.owns(parent, round.session))
      return {Code::kLeaseLost, "was done under a lease that others have by now"};
    const ops::Unlink what{.parent = parent,
                           .name = change.unlink().name(),
                           .kind = ops::Kind::kOther,
                           .held = [this](InodeId inode) { return clients_.sessions.held(inode); },
                           .at_ns = change.at_ns()};
    KINTSUGI_TRY(
        ops::unlink(names_.inodes, transaction, Caller::from(change.unlink().caller()), what, round.freed));
  }
  if (const auto left = transaction.get_message<proto::StoredInode>(keys::inode(id))) {
    *written.mutable_attributes() = attributes_of(id, *left);
    written.set_lease(clients_.leases.owns(id, round.session));
  }
  return {};
}

Status NamesService::set_attributes(Transaction& transaction, const proto::NameChange& change,
                                    const Round& round, Written& written) {
  if (change.attributes().has_size())
    return {Code::kInvalidArgument, "cannot be changed in this way under a directory lease"};
  const InodeId id{change.inode()};
  proto::SetAttributesRequest request = change.attributes();
  request.set_inode(id.value);
  FreedStripes freed;
  const auto before = transaction.get_message<proto::StoredInode>(keys::inode(id));
  KINTSUGI_TRY(
      ops::set_attributes(names_.inodes, transaction, Caller::from(request.caller()), request, freed));
  auto stored = transaction.get_message<proto::StoredInode>(keys::inode(id));
  if (change.at_ns() != 0 && change.at_ns() < stored->changed_ns()) {
    stored->set_changed_ns(before->changed_ns());
    note_change(*stored, change.at_ns());
    transaction.put_message(keys::inode(id), *stored);
  }
  *written.mutable_attributes() = attributes_of(id, *stored);
  written.set_lease(clients_.leases.owns(id, round.session));
  return {};
}

Status NamesService::apply(Transaction& transaction, const proto::NameChange& change, Round& round,
                           Written& written) {
  const Status lost{Code::kLeaseLost, "was done under a lease that others have by now"};
  const InodeId id{change.inode()};
  if (change.has_make()) {
    const bool done = transaction.get(keys::inode(id)).has_value();
    if (!done && !clients_.leases.owns(InodeId{change.make().parent()}, round.session)) return lost;
    return make(transaction, change, round, written);
  }
  if (change.has_unlink()) return unlink(transaction, change, round, written);
  const auto stored = transaction.get_message<proto::StoredInode>(keys::inode(id));
  if (!stored) return {Code::kStale, "does not exist any more"};
  if (!clients_.leases.owns(id, round.session) &&
      !clients_.leases.owns(InodeId{stored->parent()}, round.session))
    return lost;
  return set_attributes(transaction, change, round, written);
}

Status NamesService::apply_all(Transaction& transaction, const proto::WriteNamesRequest& request, int begin,
                               int end, Round& round, proto::WriteNamesResponse& response) {
  round.session = request.session();
  round.reserved = reserved_for(Reader(store_.kv), request.session());
  for (int i = begin; i < end; ++i)
    if (request.changes(i).has_make()) KINTSUGI_TRY(store_.room.check());
  for (int i = begin; i < end; ++i) {
    Written& written = *response.mutable_changes(i);
    written.Clear();
    const Status status = apply(transaction, request.changes(i), round, written);
    // It has changed nothing, so that the others can continue.
    if (status.code() == Code::kStale || status.code() == Code::kLeaseLost) {
      written.set_code(static_cast<int>(status.code()));
    } else if (!status.ok()) {
      return status;
    }
    if (request.changes(i).make().hold_for() == request.session())
      clients_.sessions.hold(request.session(), InodeId{request.changes(i).inode()});
  }
  transaction.by = request.session();
  // Their kernels were told of what they made, and attributes that they changed, before this was heard of.
  for (int i = begin; i < end; ++i)
    clients_.promises.note_promise(round.session, InodeId{request.changes(i).inode()});
  return {};
}

asio::awaitable<Status> NamesService::carry_out(Context context, const proto::WriteNamesRequest& request,
                                                int begin, int end, proto::WriteNamesResponse& response) {
  Round round;
  Transaction transaction(store_.kv);
  Status status = apply_all(transaction, request, begin, end, round, response);
  status = co_await store_.finish(context, status, transaction, std::move(round.freed));
  if (!status.ok())
    for (const InodeId id : round.granted)
      clients_.leases.give_back(round.session, id);
  co_return status;
}

bool NamesService::was_overtaken(const proto::WriteNamesRequest& request) const {
  const ClientSession* session = clients_.sessions.find(request.session());
  return session != nullptr && request.number() != 0 && request.number() < session->names_heard;
}

Status NamesService::check(const proto::WriteNamesRequest& request) {
  if (request.session() == 0) return {Code::kInvalidArgument, "the request has no session id"};
  if (request.changes_size() > kMaxChanges)
    return {Code::kLimitExceeded, fmt::format("at most {} changes are made at once", kMaxChanges)};
  // After a start of the metaserver nobody knows who has which lease before they have told.
  if (clients_.sessions.has_to_tell(request.session()))
    return {Code::kUnavailable, "the session is not known: it must report what it holds"};
  // The client gave it up long ago, and has continued without it: it may have removed what this would make.
  if (was_overtaken(request))
    return {Code::kConflict, "a later message of this session was already received"};
  if (request.number() != 0) clients_.sessions.find(request.session())->names_heard = request.number();
  return {};
}

void NamesService::note_done(const proto::WriteNamesRequest& request) {
  ClientSession* session = clients_.sessions.find(request.session());
  if (session != nullptr) session->names_done = std::max(session->names_done, request.number());
}

void NamesService::tell_present(const proto::WriteNamesRequest& request,
                                proto::WriteNamesResponse& response) const {
  const Reader reader(store_.kv);
  for (int i = 0; i < request.changes_size(); ++i) {
    const InodeId id{request.changes(i).inode()};
    Written& written = *response.mutable_changes(i);
    if (const auto stored = reader.get_message<proto::StoredInode>(keys::inode(id))) {
      *written.mutable_attributes() = attributes_of(id, *stored);
      written.set_lease(clients_.leases.owns(id, request.session()));
    } else if (!request.changes(i).has_unlink()) {
      written.set_code(static_cast<int>(Code::kStale));
    }
  }
}

Status NamesService::write_along(Transaction& transaction, const proto::WriteNamesRequest& request,
                                 proto::WriteNamesResponse& response, std::vector<InodeId>& granted,
                                 FreedStripes& freed) {
  KINTSUGI_TRY(check(request));
  for (int i = 0; i < request.changes_size(); ++i)
    response.add_changes();
  Round round;
  const Status status = apply_all(transaction, request, 0, request.changes_size(), round, response);
  granted.insert(granted.end(), round.granted.begin(), round.granted.end());
  std::ranges::move(round.freed, std::back_inserter(freed));
  return status;
}

asio::awaitable<Status> NamesService::write_names(Context context, const proto::WriteNamesRequest& request,
                                                  proto::WriteNamesResponse& response) {
  sight::Module module{context, kWriteNames, {double(request.changes_size())}};
  const Status sensible = check(request);
  if (!sensible.ok()) co_return module.finish(sensible);
  for (int i = 0; i < request.changes_size(); ++i)
    response.add_changes();
  if (request.number() != 0 && request.number() == clients_.sessions.find(request.session())->names_done) {
    tell_present(request, response);
    co_return module.finish({});
  }
  Status status = co_await carry_out(module.context(), request, 0, request.changes_size(), response);
  if (status.ok()) note_done(request);
  if (status.ok() || may_pass(status.code())) co_return module.finish(status);
  // One that cannot be done must not keep the others from being done.
  for (int i = 0; i < request.changes_size(); ++i) {
    if (was_overtaken(request))
      co_return module.finish({Code::kConflict, "a later message of this session was received meanwhile"});
    status = co_await carry_out(module.context(), request, i, i + 1, response);
    if (may_pass(status.code())) co_return module.finish(status);
    if (!status.ok()) response.mutable_changes(i)->set_code(static_cast<int>(status.code()));
  }
  note_done(request);
  co_return module.finish({});
}

}  // namespace kintsugi::metaserver
