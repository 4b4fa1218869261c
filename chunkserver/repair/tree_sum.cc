#include "chunkserver/repair/tree_sum.h"

namespace kintsugi::chunkserver {

TreeSum::TreeSum(RepairParts& parts, partial_sum::SumRange range, const proto::PartialSumRequest& request,
                 const partial_sum::Children& children, const proto::RepairNode* node,
                 partial_sum::ReceiverOptions options)
    : parts_(parts),
      registered_(parts.running.insert(parts.running.end(), this)),
      own_(node == nullptr ? std::optional<OwnSum>()
                           : std::optional<OwnSum>(std::in_place, parts, StripeId(request.stripe_id()), *node,
                                                   range.rows)),
      receiver_(parts.runtime, parts.client, range, request, children, with_own(options, request.user())) {}

TreeSum::~TreeSum() {
  parts_.running.erase(registered_);
  parts_.window_bytes -= charged_;
}

partial_sum::ReceiverOptions TreeSum::with_own(partial_sum::ReceiverOptions options, bool user) {
  options.own = own_ ? &*own_ : nullptr;
  // What a user waits for is not held up for users.
  options.gate = user ? nullptr : &parts_.pacer.receiving();
  return options;
}

Status TreeSum::admit() {
  if (parts_.running.size() > kMaxTrees)
    return {Code::kLimitExceeded, fmt::format("{} repair trees run here already", kMaxTrees)};
  const uint64_t bytes = receiver_.window_bytes();
  if (bytes > kMaxWindowBytes - parts_.window_bytes) {
    return {Code::kLimitExceeded,
            fmt::format("repair trees that run here may need {} MiB of memory, and {} MiB more are too many",
                        parts_.window_bytes >> 20, bytes >> 20)};
  }
  parts_.window_bytes += charged_ = bytes;
  return {};
}

void RepairParts::stop() {
  stopping = true;
  for (TreeSum* sum : running)
    sum->fail({Code::kCancelled, "the server is stopping"});
}

asio::awaitable<Status> TreeSum::run(Context context, partial_sum::SumSink& sink) {
  if (parts_.stopping) co_return Status{Code::kCancelled, "the server is stopping"};
  KINTSUGI_CO_TRY(admit());
  co_return co_await receiver_.run(context, sink);
}

}  // namespace kintsugi::chunkserver
