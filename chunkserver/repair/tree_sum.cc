#include "chunkserver/repair/tree_sum.h"

namespace kintsugi::chunkserver {

TreeSum::TreeSum(RepairParts& parts, repair_tree::SumRange range, const proto::PartialSumRequest& request,
                 const repair_tree::Children& children, const proto::RepairNode* node,
                 repair_tree::ReceiverOptions options)
    : parts_(parts),
      registered_(parts.running.insert(parts.running.end(), this)),
      own_(node == nullptr ? std::optional<OwnSum>()
                           : std::optional<OwnSum>(std::in_place, parts, StripeId(request.stripe_id()), *node,
                                                   range.rows)),
      receiver_(parts.runtime, parts.client, range, request, children, with_own(options)) {}

TreeSum::~TreeSum() {
  parts_.running.erase(registered_);
}

repair_tree::ReceiverOptions TreeSum::with_own(repair_tree::ReceiverOptions options) {
  options.own = own_ ? &*own_ : nullptr;
  options.gate = &parts_.pacer.receiving();
  return options;
}

void RepairParts::stop() {
  stopping = true;
  for (TreeSum* sum : running)
    sum->fail({Code::kCancelled, "the server is stopping"});
}

asio::awaitable<Status> TreeSum::run(Context context, repair_tree::SumSink& sink) {
  if (parts_.stopping) co_return Status{Code::kCancelled, "the server is stopping"};
  co_return co_await receiver_.run(context, sink);
}

}  // namespace kintsugi::chunkserver
