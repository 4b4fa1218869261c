#include "metaserver/service/allocation_service.h"

#include "erasure/code.h"
#include "erasure/policy.h"
#include "metaserver/cluster/placement.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kAllocateStripe{"metaserver.allocate_stripe", {}, {"chunks"}};
constexpr sight::Site kReplaceChunk{"metaserver.replace_chunk"};
constexpr int kMaxExcluded = 1000;
/// Room that a chunkserver keeps free on a disk, with some more for chunks that are being written.
constexpr uint64_t kDiskReserve = 32ull << 20;

Result<std::vector<ServerId>> excluded(const google::protobuf::RepeatedField<uint64_t>& ids) {
  if (ids.size() > kMaxExcluded) return Status{Code::kLimitExceeded, "too many servers are excluded"};
  std::vector<ServerId> servers;
  for (uint64_t id : ids)
    servers.emplace_back(id);
  return servers;
}

}  // namespace

void AllocationService::register_on(rpc::Server& server) {
  server.handle<&AllocationService::allocate_stripe>(rpc::Method::kAllocateStripe, *this);
  server.handle<&AllocationService::replace_chunk>(rpc::Method::kReplaceChunk, *this);
}

Result<AllocationService::Policies> AllocationService::policies_for(
    const proto::AllocateStripeRequest& request) const {
  std::string name = request.policy();
  if (name.empty() && request.inode() != 0) {
    KINTSUGI_ASSIGN(const proto::StoredInode inode,
                    Inodes::find(Transaction(store_.kv), InodeId{request.inode()}));
    name = inode.policy();
  } else if (name.empty()) {
    KINTSUGI_TRY(names_.places.check_writable(request.path()));
    KINTSUGI_TRY(
        names_.places.check_parent(Caller::from(request.caller()), request.path(), kMayWrite | kMayExecute));
    KINTSUGI_ASSIGN(const proto::GetPolicyResponse inherited,
                    names_.policies.for_new_file(store_.kv, request.path()));
    name = inherited.policy();
  }
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(name));
  const bool copies = request.file_bytes() > 0 && request.file_bytes() <= policy.cell_bytes;
  return Policies{policy, copies ? policy.as_copies() : policy, copies};
}

Result<std::vector<ServerId>> AllocationService::choose(const Policies& policies,
                                                        const proto::AllocateStripeRequest& request) {
  const erasure::Policy& policy = policies.stripe;
  KINTSUGI_ASSIGN(const std::vector<ServerId> exclude, excluded(request.exclude()));
  uint64_t chunk_bytes = store_.options.chunk_bytes;
  if (policies.copies_of_file) chunk_bytes = std::min(chunk_bytes, request.file_bytes() + kDiskReserve);
  const UsableServers usable = servers_.usable_servers(exclude, chunk_bytes);
  const size_t count = std::min<size_t>(policy.chunks(), usable.servers.size());
  std::vector<uint32_t> lacking;
  for (auto index = static_cast<uint32_t>(count); index < policy.chunks(); ++index)
    lacking.push_back(index);
  // Chunks are left out only while servers are away. A client that excludes servers asks again without that; space has
  // to be made by people; and a cluster that never had servers enough for the policy never will by itself.
  const bool away = exclude.empty() && usable.servers.size() + usable.full < policy.chunks() &&
                    servers_.registry.servers().size() >= policy.chunks();
  if (!lacking.empty() && !(away && erasure::Code::get(policy)->may_lack(lacking)))
    return too_few_servers(policies.file, policy, usable);
  std::vector<ServerId> servers = choose_servers(count, usable.servers, {}, store_.runtime.random);
  servers.resize(policy.chunks());
  return servers;
}

asio::awaitable<void> AllocationService::wait_for_servers(Context context, const Policies& policies) {
  while (!store_.stopping) {
    const UsableServers usable = servers_.usable_servers({}, 0);
    // Those that do not come are declared dead soon after the start, so this ends.
    if (usable.servers.size() >= policies.stripe.chunks() || usable.expected == 0) co_return;
    if (!co_await servers_.changed.wait_until(context.deadline)) co_return;
  }
}

Status AllocationService::allocate(const proto::AllocateStripeRequest& request, const Policies& policies,
                                   proto::AllocateStripeResponse& response) {
  KINTSUGI_TRY(store_.room.check());
  const std::string policy = policies.stripe.name();
  KINTSUGI_ASSIGN(const std::vector<ServerId> servers, choose(policies, request));

  UploadId upload{request.upload_id()};
  if (!upload) upload = uploads_.new_id(store_.runtime.random);
  KINTSUGI_ASSIGN(const uint64_t stripe_id, new_stripes_.ids.take());
  KINTSUGI_TRY(uploads_.use(upload));
  KINTSUGI_ASSIGN(*response.mutable_ticket(),
                  new_stripes_.allocations.add(upload, StripeId{stripe_id}, policy, servers));
  proto::StoredStripe stripe;
  stripe.set_policy(policy);
  for (ServerId server : servers)
    stripe.add_chunks()->set_server_id(server.value);
  response.set_upload_id(upload.value);
  *response.mutable_stripe() = describer_.describe(StripeId{stripe_id}, stripe, rpc::kOpWrite | rpc::kOpRead,
                                                   store_.options.upload_ttl);
  response.set_max_chunk_bytes(store_.options.chunk_bytes);
  response.set_file_policy(policies.file.name());
  response.set_default_policy(names_.policies.default_policy(store_.kv));
  return {};
}

asio::awaitable<Status> AllocationService::allocate_stripe(Context context,
                                                           const proto::AllocateStripeRequest& request,
                                                           proto::AllocateStripeResponse& response) {
  sight::Module module{context, kAllocateStripe};
  const Result<Policies> policies = policies_for(request);
  if (policies) co_await wait_for_servers(context, *policies);
  Status allocated = policies ? allocate(request, *policies, response) : policies.error();
  module.output(0, response.stripe().chunks_size());
  // An allocation is a promise of this process and no state that a crash could take back: its ids are reserved
  // durably, and whether its path and policy still hold is for the commit to see. So it does not wait for the syncs of
  // other operations, which a client that stores many files would wait for once more with each of them. A refusal
  // does.
  if (allocated.ok()) co_return module.finish(std::move(allocated));
  co_return module.finish(co_await store_.finish_read(module.context(), std::move(allocated)));
}

Status AllocationService::replace(const proto::ReplaceChunkRequest& request,
                                  proto::ReplaceChunkResponse& response) {
  const UploadId upload{request.upload_id()};
  const StripeId stripe{request.stripe().stripe_id()};
  KINTSUGI_ASSIGN(const proto::StripeTicket ticket, uploads_.open(upload, stripe, request.ticket()));
  if (store_.kv.get(keys::stripe(stripe))) {
    return {Code::kConflict, fmt::format("stripe {} is sealed already", stripe)};
  }
  if (request.index() >= static_cast<uint32_t>(ticket.servers_size())) {
    return {Code::kInvalidArgument, fmt::format("stripe {} has no chunk {}", stripe, request.index())};
  }
  KINTSUGI_ASSIGN(std::vector<ServerId> exclude, excluded(request.exclude()));
  std::vector<Candidate> others;
  for (int i = 0; i < ticket.servers_size(); ++i) {
    const ServerId server{ticket.servers(i)};
    exclude.push_back(server);
    const ServerRecord* record = servers_.registry.find(server);
    if (i != static_cast<int>(request.index()) && record)
      others.push_back({server, record->stored.rack(), 0});
  }
  const UsableServers usable = servers_.usable_servers(exclude, ticket.max_chunk_bytes());
  const std::vector<ServerId> chosen = choose_servers(1, usable.servers, others, store_.runtime.random);
  if (chosen.empty()) {
    return {Code::kUnavailable,
            fmt::format("no other server is usable for chunk {}:{} (policy {}, {} excluded)", stripe,
                        request.index(), ticket.policy(), exclude.size())};
  }
  response.set_ticket(new_stripes_.allocations.reallocate(ticket, request.index(), chosen.front()));
  proto::StoredStripe described;
  described.set_policy(ticket.policy());
  for (int i = 0; i < ticket.servers_size(); ++i)
    described.add_chunks();
  described.mutable_chunks(static_cast<int>(request.index()))->set_server_id(chosen.front().value);
  const proto::Stripe with_capability =
      describer_.describe(stripe, described, rpc::kOpWrite | rpc::kOpRead, store_.options.upload_ttl);
  *response.mutable_chunk() = with_capability.chunks(static_cast<int>(request.index()));
  return {};
}

asio::awaitable<Status> AllocationService::replace_chunk(Context context,
                                                         const proto::ReplaceChunkRequest& request,
                                                         proto::ReplaceChunkResponse& response) {
  sight::Module module{context, kReplaceChunk};
  const Status replaced = replace(request, response);
  co_return module.finish(co_await store_.finish_read(module.context(), replaced));
}

}  // namespace kintsugi::metaserver
