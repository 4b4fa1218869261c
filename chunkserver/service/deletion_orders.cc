#include "chunkserver/service/deletion_orders.h"

namespace kintsugi::chunkserver {

void DeletionOrders::begin_anew() {
  open_.clear();
  received_ = done_ = 0;
}

void DeletionOrders::take(const proto::HeartbeatResponse& response) {
  bool all = true;
  for (const auto& victim : response.delete_chunks())
    all = deleter_.order({StripeId(victim.stripe_id()), victim.index()}) && all;
  // Orders that are not acknowledged are given again.
  if (!all || response.orders() == 0) return;
  received_ = response.orders();
  open_.push_back({response.orders(), deleter_.ordered()});
}

void DeletionOrders::acknowledge(proto::HeartbeatRequest& request) {
  while (!open_.empty() && open_.front().last_of_them <= deleter_.carried_out()) {
    done_ = open_.front().number;
    open_.pop_front();
  }
  request.set_orders_received(received_);
  request.set_orders_done(done_);
}

}  // namespace kintsugi::chunkserver
