// The RPCs of FileService that choose servers.
#include "erasure/policy.h"
#include "metaserver/cluster/placement.h"
#include "metaserver/service/file_service.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kAllocateStripe{"metaserver.allocate_stripe", {}, {"chunks"}};
constexpr sight::Site kReplaceChunk{"metaserver.replace_chunk"};
constexpr int kMaxExcluded = 1000;

Result<std::vector<ServerId>> excluded(const google::protobuf::RepeatedField<uint64_t>& ids) {
  if (ids.size() > kMaxExcluded) return Status{Code::kLimitExceeded, "too many servers are excluded"};
  std::vector<ServerId> servers;
  for (uint64_t id : ids)
    servers.emplace_back(id);
  return servers;
}

}  // namespace

Result<proto::AllocateStripeResponse> FileService::allocate(const proto::AllocateStripeRequest& request) {
  KINTSUGI_ASSIGN(const proto::GetPolicyResponse inherited,
                  core_.names.policy_for_new_file(core_.store, request.path()));
  const std::string& wanted = request.policy().empty() ? inherited.policy() : request.policy();
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(wanted));
  if (request.chunk_bytes() > core_.options.chunk_bytes) {
    return Status{Code::kInvalidArgument,
                  fmt::format("chunks of {} bytes are wanted, this cluster's have at most {}",
                              request.chunk_bytes(), core_.options.chunk_bytes)};
  }
  KINTSUGI_ASSIGN(const std::vector<ServerId> exclude, excluded(request.exclude()));
  const std::vector<Candidate> usable = core_.usable_servers(exclude);
  const std::vector<ServerId> servers = choose_servers(policy.chunks(), usable, {}, core_.runtime.random);
  if (servers.empty()) return too_few_servers(policy, usable.size());

  UploadId upload{request.upload_id()};
  if (!upload) {
    KINTSUGI_ASSIGN(const uint64_t id, core_.upload_ids.take());
    upload = UploadId{id};
  }
  KINTSUGI_ASSIGN(const uint64_t stripe_id, core_.stripe_ids.take());
  KINTSUGI_TRY(core_.uploads.use(upload));
  proto::AllocateStripeResponse response;
  KINTSUGI_ASSIGN(*response.mutable_ticket(),
                  core_.uploads.allocate(upload, StripeId{stripe_id}, policy.name(), servers));
  proto::StoredStripe stripe;
  stripe.set_policy(policy.name());
  for (ServerId server : servers)
    stripe.add_chunks()->set_server_id(server.value);
  response.set_upload_id(upload.value);
  *response.mutable_stripe() =
      core_.describe(StripeId{stripe_id}, stripe, rpc::kOpWrite | rpc::kOpRead, core_.options.upload_ttl);
  response.set_max_chunk_bytes(core_.options.chunk_bytes);
  response.set_default_policy(core_.names.default_policy(core_.store));
  return response;
}

asio::awaitable<Result<proto::AllocateStripeResponse>> FileService::allocate_stripe(
    Context context, proto::AllocateStripeRequest request) {
  sight::Module module{context, kAllocateStripe};
  Result<proto::AllocateStripeResponse> response = allocate(request);
  const Status status = co_await core_.finish_read(response);
  if (!module.finish(status).ok()) co_return status;
  module.output(0, response->stripe().chunks_size());
  co_return response;
}

Result<proto::ReplaceChunkResponse> FileService::replace(const proto::ReplaceChunkRequest& request) {
  const UploadId upload{request.upload_id()};
  const StripeId stripe{request.stripe().stripe_id()};
  KINTSUGI_ASSIGN(const proto::StripeTicket ticket, core_.uploads.open(upload, stripe, request.ticket()));
  if (core_.store.get(keys::stripe(stripe))) {
    return Status{Code::kConflict, fmt::format("stripe {} is sealed already", stripe)};
  }
  if (request.index() >= static_cast<uint32_t>(ticket.servers_size())) {
    return Status{Code::kInvalidArgument, fmt::format("stripe {} has no chunk {}", stripe, request.index())};
  }
  KINTSUGI_ASSIGN(std::vector<ServerId> exclude, excluded(request.exclude()));
  std::vector<Candidate> others;
  for (int i = 0; i < ticket.servers_size(); ++i) {
    const ServerId server{ticket.servers(i)};
    exclude.push_back(server);
    const ServerRecord* record = core_.servers.find(server);
    if (i != static_cast<int>(request.index()) && record)
      others.push_back({server, record->stored.rack(), 0});
  }
  const std::vector<Candidate> usable = core_.usable_servers(exclude);
  const std::vector<ServerId> chosen = choose_servers(1, usable, others, core_.runtime.random);
  if (chosen.empty()) {
    return Status{Code::kUnavailable,
                  fmt::format("no other server is usable for chunk {}:{} (policy {}, {} excluded)", stripe,
                              request.index(), ticket.policy(), exclude.size())};
  }
  proto::ReplaceChunkResponse response;
  response.set_ticket(core_.uploads.reallocate(ticket, request.index(), chosen.front()));
  proto::StoredStripe described;
  described.set_policy(ticket.policy());
  for (int i = 0; i < ticket.servers_size(); ++i)
    described.add_chunks();
  described.mutable_chunks(static_cast<int>(request.index()))->set_server_id(chosen.front().value);
  const proto::Stripe with_capability =
      core_.describe(stripe, described, rpc::kOpWrite | rpc::kOpRead, core_.options.upload_ttl);
  *response.mutable_chunk() = with_capability.chunks(static_cast<int>(request.index()));
  return response;
}

asio::awaitable<Result<proto::ReplaceChunkResponse>> FileService::replace_chunk(
    Context context, proto::ReplaceChunkRequest request) {
  sight::Module module{context, kReplaceChunk};
  Result<proto::ReplaceChunkResponse> response = replace(request);
  const Status status = co_await core_.finish_read(response);
  if (!module.finish(status).ok()) co_return status;
  co_return response;
}

}  // namespace kintsugi::metaserver
