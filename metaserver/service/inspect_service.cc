#include "metaserver/service/inspect_service.h"

#include "erasure/code.h"
#include "erasure/policy.h"
#include "metaserver/service/fsck_page.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kListServers{"metaserver.list_servers"};
constexpr sight::Site kShowStripe{"metaserver.show_stripe"};
constexpr sight::Site kFsck{"metaserver.fsck", {}, {"files", "problems"}};

std::shared_ptr<const erasure::Code> code_of(const proto::StoredStripe& stripe) {
  const auto policy = erasure::Policy::parse(stripe.policy());
  KINTSUGI_ASSERT(policy);
  return erasure::Code::get(*policy);
}

}  // namespace

void InspectService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&InspectService::list_servers>(Method::kListServers, *this);
  server.handle<&InspectService::show_stripe>(Method::kShowStripe, *this);
  server.handle<&InspectService::fsck>(Method::kFsck, *this);
  server.handle<&InspectService::ping>(Method::kPing, *this);
}

asio::awaitable<Status> InspectService::ping(Context, const Empty&, Empty&) {
  co_return Status{};
}

asio::awaitable<Status> InspectService::list_servers(Context context, const Empty&,
                                                     proto::ListServersResponse& response) {
  sight::Module module{context, kListServers};
  for (const auto& [id, server] : state_.servers.servers())
    *response.add_servers() = state_.state_of(server);
  co_return module.finish(co_await state_.finish_read());
}

Status InspectService::describe_stripe(StripeId id, proto::ShowStripeResponse& response) const {
  const auto stored = load_stripe(state_.store, id);
  if (!stored) return {Code::kNotFound, fmt::format("stripe {} does not exist", id)};
  *response.mutable_stripe() = state_.describe(id, *stored, rpc::kOpRead, kReadCapabilityLife);
  for (const proto::StoredChunk& chunk : stored->chunks()) {
    if (const ServerRecord* server = state_.servers.find(ServerId{chunk.server_id()})) {
      *response.add_servers() = state_.state_of(*server);
    }
  }
  const std::vector<uint32_t> available = state_.chunks.available_chunks(id, *stored);
  const bool whole = available.size() == static_cast<size_t>(stored->chunks_size());
  response.set_state(whole ? "healthy" : code_of(*stored)->decodable(available) ? "degraded" : "lost");
  return {};
}

asio::awaitable<Status> InspectService::show_stripe(Context context, const proto::ShowStripeRequest& request,
                                                    proto::ShowStripeResponse& response) {
  sight::Module module{context, kShowStripe};
  const Status described = describe_stripe(StripeId{request.stripe_id()}, response);
  co_return module.finish(co_await state_.finish_read(described));
}

asio::awaitable<Status> InspectService::fsck(Context context, const proto::FsckRequest& request,
                                             proto::FsckResponse& response) {
  sight::Module module{context, kFsck};
  const std::unique_ptr<const ReadView> snapshot = state_.store.snapshot();
  const Status checked = FsckPage(state_, Reader(*snapshot), request, response).fill();
  module.output(0, double(response.files()));
  module.output(1, double(response.problems_size()));
  co_return module.finish(co_await state_.finish_read(checked));
}

}  // namespace kintsugi::metaserver
