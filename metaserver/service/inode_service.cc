#include "metaserver/service/inode_service.h"

#include "metaserver/namespace/changes.h"
#include "metaserver/namespace/ops/attributes.h"
#include "metaserver/namespace/ops/links.h"
#include "metaserver/namespace/ops/make.h"
#include "metaserver/namespace/ops/move.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kLookup{"metaserver.lookup"};
constexpr sight::Site kGet{"metaserver.get_inode"};
constexpr sight::Site kSetAttributes{"metaserver.set_attributes"};
constexpr sight::Site kMake{"metaserver.make_inode"};
constexpr sight::Site kLink{"metaserver.link"};
constexpr sight::Site kUnlink{"metaserver.unlink"};
constexpr sight::Site kMove{"metaserver.move"};
constexpr sight::Site kListInode{"metaserver.list_inode", {}, {"entries"}};

/// What a change returns that is about no inode.
constexpr InodeId kNoResult = kRootInode;

Result<InodeId> done(Status status, InodeId id = kNoResult) {
  if (!status.ok()) return status;
  return id;
}

Status named(Status status, std::string_view name) {
  return status.ok() ? status : Status{status.code(), fmt::format("'{}' {}", name, status.message())};
}

}  // namespace

void InodeService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&InodeService::lookup>(Method::kLookup, *this);
  server.handle<&InodeService::get>(Method::kGetInode, *this);
  server.handle<&InodeService::set_attributes>(Method::kSetAttributes, *this);
  server.handle<&InodeService::make>(Method::kMakeInode, *this);
  server.handle<&InodeService::link>(Method::kLink, *this);
  server.handle<&InodeService::unlink>(Method::kUnlink, *this);
  server.handle<&InodeService::move>(Method::kMove, *this);
  server.handle<&InodeService::list>(Method::kListInode, *this);
}

Status InodeService::attributes_of(InodeId id, InodeResponse& response) const {
  KINTSUGI_ASSIGN(const Place place, names_.places.of(id));
  return extract(names_.places.attributes(place), *response.mutable_attributes());
}

asio::awaitable<Status> InodeService::finish(Context context, Result<InodeId> outcome,
                                             const proto::Change& change, Transaction& transaction,
                                             FreedStripes freed) {
  if (outcome) note_change(transaction, change, *outcome);
  co_return co_await store_.finish(context, outcome ? Status{} : outcome.error(), transaction,
                                   std::move(freed));
}

Status InodeService::find(const proto::LookupRequest& request, InodeResponse& response) const {
  KINTSUGI_ASSIGN(const Place directory, names_.places.of(InodeId{request.parent()}));
  KINTSUGI_ASSIGN(const Place found,
                  names_.places.lookup(directory, Caller::from(request.caller()), request.name()));
  KINTSUGI_ASSIGN(*response.mutable_attributes(), names_.places.attributes(found));
  return {};
}

asio::awaitable<Status> InodeService::lookup(Context context, const proto::LookupRequest& request,
                                             InodeResponse& response) {
  sight::Module module{context, kLookup};
  const InodeId parent{request.parent()};
  Status found;
  const auto unsettled = [&](Unsettled& all) {
    all.inode(parent, request.session());
    if (!all.empty()) return;
    // The name may have gone to another inode since the last look.
    found = find(request, response);
    if (found.ok()) all.inode(InodeId{response.attributes().inode()}, request.session());
  };
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.until_none(module.context(), unsettled)));
  if (found.ok() || found.code() == Code::kNotFound)
    clients_.promises.note_promise(request.session(), parent, Promises::kNames);
  if (found.ok()) clients_.promises.note_promise(request.session(), InodeId{response.attributes().inode()});
  co_return module.finish(co_await store_.finish_read(module.context(), named(found, request.name())));
}

asio::awaitable<Status> InodeService::get(Context context, const proto::GetInodeRequest& request,
                                          InodeResponse& response) {
  sight::Module module{context, kGet};
  const InodeId id{request.inode()};
  if (!clients_.leases.settled(id, request.session())) {
    const Status settled = co_await clients_.leases.settle(module.context(), id, request.session());
    if (!settled.ok()) co_return module.finish(settled);
  }
  const Status found = about_inode(attributes_of(id, response), request.inode());
  if (found.ok() && request.hold()) clients_.sessions.hold(request.session(), id);
  if (found.ok()) clients_.promises.note_promise(request.session(), id);
  if (found.ok() && request.lease()) response.set_lease(lease_grants_.grant(request.session(), id));
  const proto::Attributes& attributes = response.attributes();
  if (found.ok() && request.where() && attributes.type() == proto::Attributes::FILE &&
      attributes.size() <= kSmallFile) {
    proto::OpenReadRequest all;
    all.set_inode(request.inode());
    if (!files_.read_extents(all, *response.mutable_where()).ok()) response.clear_where();
    response.mutable_where()->clear_attributes();
  }
  // What its owner changes is not heard of here from now on.
  if (response.lease())
    co_await clients_.promises.await_heard(clients_.promises.note_change(id, request.session()));
  co_return module.finish(co_await store_.finish_read(module.context(), found));
}

asio::awaitable<Status> InodeService::settle(Context context, InodeId file, uint64_t session, Cuts* cuts) {
  for (int round = 0; round < Settling::kMaxRounds; ++round) {
    KINTSUGI_CO_TRY(co_await clients_.leases.settle(context, file, session));
    if (cuts == nullptr || (cuts->is_looked_through() && !cuts->is_outdated(store_.kv))) co_return Status{};
    cuts->start_again();
    // Others have turns meanwhile, and may be given the lease: so it is settled again.
    while (cuts->look(store_.kv))
      co_await asio::post(store_.runtime.executor, asio::use_awaitable);
  }
  co_return Status{Code::kUnavailable, "keeps being changed by other clients: try again"};
}

asio::awaitable<Status> InodeService::set_in_step(Context context, const proto::SetAttributesRequest& request,
                                                  uint64_t size, bool last) {
  proto::SetAttributesRequest step = request;
  if (request.has_size()) step.set_size(size);
  Transaction transaction(store_.kv);
  FreedStripes freed;
  Status set = clients_.leases.check(InodeId{request.inode()}, request.change().session());
  if (set.ok() && request.has_size()) set = store_.room.check();
  if (set.code() == Code::kNoSpace && request.size() == 0) set = {};  // it makes room
  if (set.ok())
    set = ops::set_attributes(names_.inodes, transaction, Caller::from(request.caller()), step, freed);
  co_return co_await finish(context, done(set, InodeId{request.inode()}),
                            last ? request.change() : proto::Change{}, transaction, std::move(freed));
}

asio::awaitable<Status> InodeService::set_attributes(Context context,
                                                     const proto::SetAttributesRequest& request,
                                                     InodeResponse& response) {
  sight::Module module{context, kSetAttributes};
  const InodeId id{request.inode()};
  const uint64_t session = request.change().session();
  Status status = co_await clients_.leases.settle(module.context(), id, session);
  if (status.ok()) status = clients_.leases.check(id, session);
  bool repeated = status.ok() && carried_out(store_.kv, request.change()).has_value();
  if (status.ok() && !repeated) {
    // A file of very many extents is cut off in steps.
    Cuts cuts(id, request.size());
    const bool cut = request.has_size() && request.size() > 0;
    for (bool first = true, last = false; status.ok() && !last; first = false) {
      status = co_await settle(module.context(), id, session, cut ? &cuts : nullptr);
      if (repeated = is_over(store_.kv, request.change()); repeated) break;  // others may not know yet
      if (!first && store_.runtime.clock.now() >= context.deadline)
        status = {Code::kDeadlineExceeded, "is not truncated completely yet: try again"};
      last = cuts.is_last();
      if (status.ok()) status = co_await set_in_step(module.context(), request, cuts.next(), last);
      if (!last) cuts.done();
    }
  }
  if (status.ok()) status = attributes_of(id, response);
  if (status.ok()) clients_.promises.note_promise(session, id);
  status = about_inode(status, request.inode());
  co_return module.finish(repeated ? co_await store_.finish_repeated(module.context(), status)
                                   : co_await store_.finish_read(module.context(), status));
}

asio::awaitable<Status> InodeService::make(Context context, const proto::MakeInodeRequest& request,
                                           InodeResponse& response) {
  sight::Module module{context, kMake};
  KINTSUGI_CO_TRY(module.finish(co_await clients_.leases.settle(module.context(), InodeId{request.parent()},
                                                                request.change().session())));
  std::optional<InodeId> made = carried_out(store_.kv, request.change());
  if (!made) {
    Transaction transaction(store_.kv);
    const InodeId parent{request.parent()};
    const Caller caller = Caller::from(request.caller());
    NewInode wanted = NewInode::from(request);
    if (request.type() == proto::Attributes::FILE)
      wanted.policy = names_.policies.of_directory(store_.kv, parent);
    Result<InodeId> outcome = done(store_.room.check());
    if (outcome && !proto::Attributes::Type_IsValid(request.type()))
      outcome = Status{Code::kInvalidArgument, "cannot be of this type"};
    if (outcome) {
      outcome = request.name().empty()
                    ? ops::make_nameless(names_.inodes, transaction, caller, parent, wanted)
                    : ops::make(names_.inodes, transaction, caller, parent, request.name(), wanted);
    }
    if (const Status counted = outcome ? names_.quotas.account(transaction) : Status{}; !counted.ok())
      outcome = counted;
    if (outcome) made = *outcome;
    if (outcome) clients_.sessions.hold(request.hold_for(), *made);
    // Nobody may see an empty directory before the lease of it is given: what is in it would be its owner's to say.
    bool leased = false;
    if (outcome) {
      const auto stored = transaction.get_message<proto::StoredInode>(keys::inode(*made));
      *response.mutable_attributes() = to_attributes(*made, *stored);
      leased = request.lease() && is_directory(*stored) && lease_grants_.may_keep_back(*stored) &&
               clients_.leases.grant(request.change().session(), *made);
      clients_.promises.note_promise(request.change().session(), InodeId{request.parent()}, Promises::kNames);
      clients_.promises.note_promise(request.change().session(), *made);
    }
    const Status status = co_await finish(module.context(), outcome, request.change(), transaction);
    if (leased && !status.ok()) clients_.leases.give_back(request.change().session(), *made);
    if (request.type() == proto::Attributes::DIRECTORY) {
      response.set_lease(leased && status.ok());
      if (response.lease()) response.set_file_policy(names_.policies.of_directory(store_.kv, *made));
      co_return module.finish(named(status, request.name()));
    }
    if (!status.ok() || !request.lease()) co_return module.finish(named(status, request.name()));
    const Status found = co_await grant_lease(request, *made, response);
    co_return module.finish(named(co_await store_.finish_read(module.context(), found), request.name()));
  }
  clients_.sessions.hold(request.hold_for(), *made);
  clients_.promises.note_promise(request.change().session(), InodeId{request.parent()}, Promises::kNames);
  clients_.promises.note_promise(request.change().session(), *made);
  const bool lease = request.lease() && request.type() != proto::Attributes::DIRECTORY;
  const Status found =
      lease ? co_await grant_lease(request, *made, response) : attributes_of(*made, response);
  co_return module.finish(co_await store_.finish_repeated(module.context(), found));
}

asio::awaitable<Status> InodeService::grant_lease(const proto::MakeInodeRequest& request, InodeId made,
                                                  InodeResponse& response) {
  response.set_lease(lease_grants_.grant(request.hold_for(), made));
  // Others may have found and changed the file while the call waited. With a lease nobody else can any more.
  const Status found = attributes_of(made, response);
  if (response.lease())
    co_await clients_.promises.await_heard(clients_.promises.note_change(made, request.hold_for()));
  co_return found;
}

asio::awaitable<Status> InodeService::link(Context context, const proto::LinkRequest& request,
                                           InodeResponse& response) {
  sight::Module module{context, kLink};
  const InodeId id{request.inode()};
  const InodeId parent{request.parent()};
  const auto unsettled = [&](Unsettled& all) {
    all.inode(parent, request.change().session());
    all.into_quota(id, parent);
  };
  Status status = co_await names_.settling.until_none(module.context(), unsettled);
  const bool repeated = status.ok() && carried_out(store_.kv, request.change()).has_value();
  if (status.ok() && !repeated) {
    Transaction transaction(store_.kv);
    Status linked = store_.room.check();
    if (linked.ok())
      linked =
          ops::link(names_.inodes, transaction, Caller::from(request.caller()), id, parent, request.name());
    status = co_await finish(module.context(), done(linked, id), request.change(), transaction);
  }
  if (status.ok()) status = attributes_of(id, response);
  if (status.ok()) {
    clients_.promises.note_promise(request.change().session(), parent, Promises::kNames);
    clients_.promises.note_promise(request.change().session(), id);
  }
  status = named(status, request.name());
  co_return module.finish(repeated ? co_await store_.finish_repeated(module.context(), status)
                                   : co_await store_.finish_read(module.context(), status));
}

asio::awaitable<Status> InodeService::unlink(Context context, const proto::UnlinkRequest& request, Empty&) {
  sight::Module module{context, kUnlink};
  const auto unsettled = [&](Unsettled& all) {
    all.name(InodeId{request.parent()}, request.name(), request.change().session());
  };
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.until_none(module.context(), unsettled)));
  if (carried_out(store_.kv, request.change()))
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  Transaction transaction(store_.kv);
  FreedStripes freed;
  const ops::Unlink what{.parent = InodeId{request.parent()},
                         .name = request.name(),
                         .kind = request.directory() ? ops::Kind::kDirectory : ops::Kind::kOther,
                         .held = held()};
  const Status unlinked =
      ops::unlink(names_.inodes, transaction, Caller::from(request.caller()), what, freed);
  if (unlinked.ok()) (void)names_.quotas.account(transaction, false);  // what shrinks is never refused
  const Status status =
      co_await finish(module.context(), done(unlinked), request.change(), transaction, std::move(freed));
  co_return module.finish(named(status, request.name()));
}

asio::awaitable<Status> InodeService::move(Context context, const proto::MoveRequest& request, Empty&) {
  sight::Module module{context, kMove};
  const InodeId from{request.parent()}, to{request.to_parent()};
  const auto unsettled = [&](Unsettled& all) {
    all.name(from, request.name(), request.change().session());
    all.name(to, request.to_name(), request.change().session());
    all.into_quota(from, request.name(), to);
    if (request.exchange()) all.into_quota(to, request.to_name(), from);
  };
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.until_none(module.context(), unsettled)));
  if (carried_out(store_.kv, request.change()))
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  Transaction transaction(store_.kv);
  FreedStripes freed;
  const auto target = request.exchange()     ? ops::Target::kExchange
                      : request.no_replace() ? ops::Target::kMustNotExist
                                             : ops::Target::kReplace;
  const ops::Move what{from, request.name(), to, request.to_name(), target, held()};
  const Status moved = ops::move(names_.inodes, transaction, Caller::from(request.caller()), what, freed);
  if (moved.ok()) clients_.promises.moved(request.change().session(), from, to);
  if (moved.ok() && request.exchange()) clients_.promises.moved(request.change().session(), to, from);
  const Status status =
      co_await finish(module.context(), done(moved), request.change(), transaction, std::move(freed));
  co_return module.finish(named(status, request.name()));
}

asio::awaitable<Status> InodeService::list(Context context, const proto::ListInodeRequest& request,
                                           proto::ListResponse& response) {
  sight::Module module{context, kListInode};
  const auto list_page = [&]() -> Status {
    KINTSUGI_ASSIGN(const Place place, names_.places.of(InodeId{request.directory()}));
    return extract(names_.places.list(place, request.after(), request.limit(), request.names_only()),
                   response);
  };
  Status listed;
  const auto unsettled = [&](Unsettled& all) {
    all.inode(InodeId{request.directory()}, request.session());
    if (!all.empty()) return;
    // Also what got its name since the last look may be kept back.
    listed = list_page();
    if (listed.ok() && !request.names_only()) all.entries(response, request.session());
  };
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.until_none(module.context(), unsettled)));
  if (listed.ok() && !request.names_only()) {
    clients_.promises.note_promise(request.session(), InodeId{request.directory()}, Promises::kNames);
    for (const proto::DirectoryEntry& entry : response.entries())
      clients_.promises.note_promise(request.session(), InodeId{entry.attributes().inode()});
  }
  module.output(0, response.entries_size());
  co_return module.finish(
      co_await store_.finish_read(module.context(), about_inode(listed, request.directory())));
}

}  // namespace kintsugi::metaserver
