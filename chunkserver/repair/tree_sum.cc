#include "chunkserver/repair/tree_sum.h"

namespace kintsugi::chunkserver {
namespace {

partial_sum::ReceiverOptions with_own(partial_sum::ReceiverOptions options, OwnSum* own) {
  options.own = own;
  return options;
}

}  // namespace

TreeSum::TreeSum(RunningTrees& trees, const runtime::Runtime& runtime, rpc::Client& client, Terms terms,
                 partial_sum::ReceiverOptions options)
    : trees_(trees),
      own_(std::move(terms.own)),
      receiver_(runtime, client, terms.range, terms.request, terms.children, with_own(options, own_.get())) {}

asio::awaitable<Status> TreeSum::run(Context context, partial_sum::SumSink& sink) {
  KINTSUGI_CO_ASSIGN(admission_, trees_.admit(receiver_));
  co_return co_await receiver_.run(context, sink);
}

}  // namespace kintsugi::chunkserver
