#include "common/rpc/placed_stripes.h"

#include <unordered_set>

#include <fmt/format.h>

#include "common/proto/coordination.pb.h"

namespace kintsugi::rpc {
namespace {

constexpr uint32_t kChunksOfAPage = 1000;  // the metaserver looks them all up in one turn

/// Adds to `stripes` those of a page that were not `seen`.
asio::awaitable<Status> add_described(const AskMetaserver& ask, const proto::FetchRepairWorkResponse& page,
                                      std::unordered_set<uint64_t>& seen,
                                      std::vector<proto::Stripe>& stripes) {
  proto::DescribeStripesRequest request;
  for (const proto::MissingChunk& chunk : page.missing())
    if (seen.insert(chunk.stripe_id()).second) request.add_stripe_ids(chunk.stripe_id());
  if (seen.size() > kMaxPlacedStripes)
    co_return Status{Code::kLimitExceeded, fmt::format("more than {} stripes", kMaxPlacedStripes)};
  if (request.stripe_ids().empty()) co_return Status{};
  proto::DescribeStripesResponse response;
  KINTSUGI_CO_TRY(co_await ask(Method::kDescribeStripes, request, response));
  for (proto::StripeDescription& description : *response.mutable_stripes())
    stripes.push_back(std::move(*description.mutable_stripe()));
  co_return Status{};
}

}  // namespace

asio::awaitable<Result<std::vector<proto::Stripe>>> placed_stripes(AskMetaserver ask,
                                                                   std::vector<uint64_t> server_ids) {
  std::unordered_set<uint64_t> seen;
  std::vector<proto::Stripe> stripes;
  for (const uint64_t server : server_ids) {
    proto::FetchRepairWorkRequest request;
    request.mutable_missing()->set_server_id(server);
    request.mutable_missing()->set_limit(kChunksOfAPage);
    for (bool more = true; more;) {
      proto::FetchRepairWorkResponse page;
      KINTSUGI_CO_TRY(co_await ask(Method::kFetchRepairWork, request, page));
      KINTSUGI_CO_TRY(co_await add_described(ask, page, seen, stripes));
      more = page.more();
      request.mutable_missing()->set_after_stripe(page.next_after().stripe_id());
      request.mutable_missing()->set_after_index(page.next_after().index());
    }
  }
  co_return stripes;
}

}  // namespace kintsugi::rpc
