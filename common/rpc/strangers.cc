#include "common/rpc/strangers.h"

#include <algorithm>

#include "common/rpc/peers.h"

namespace kintsugi::rpc {

Strangers::Guard::Guard(Strangers& strangers, BufferedConnection& connection) : strangers_(strangers) {
  auto& all = strangers.connections_;
  const auto same = [&](const BufferedConnection* other) {
    return address_of(other->peer()) == address_of(connection.peer());
  };
  // Closed ones leave the list when their coroutines have ended.
  if (all.size() >= kMost) {
    all.front()->close();
  } else if (static_cast<size_t>(std::ranges::count_if(all, same)) >= kMostOfAnAddress) {
    (*std::ranges::find_if(all, same))->close();
  }
  at_ = all.insert(all.end(), &connection);
}

bool Strangers::close_oldest() {
  if (connections_.empty()) return false;
  connections_.front()->close();
  return true;
}

}  // namespace kintsugi::rpc
