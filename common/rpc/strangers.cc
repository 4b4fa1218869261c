#include "common/rpc/strangers.h"

#include <algorithm>
#include <string_view>

namespace kintsugi::rpc {
namespace {

/// "10.0.0.1" of "10.0.0.1:54321".
std::string_view address_of(const BufferedConnection& connection) {
  const std::string_view peer = connection.peer();
  return peer.substr(0, peer.rfind(':'));
}

}  // namespace

Strangers::Guard::Guard(Strangers& strangers, BufferedConnection& connection) : strangers_(strangers) {
  auto& all = strangers.connections_;
  const auto same = [&](const BufferedConnection* other) {
    return address_of(*other) == address_of(connection);
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
