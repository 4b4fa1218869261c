/// Connections whose peers have not proven yet that they know the cluster secret.
#pragma once

#include <list>

#include "common/rpc/buffered_connection.h"

namespace kintsugi::rpc {

/// Anybody can open connections and say nothing. So only some of them may be strangers at a time, in all and from one
/// address, and the oldest makes room for the newest: an honest peer proves itself within milliseconds, and so it is
/// never the oldest of hundreds.
class Strangers {
 public:
  static constexpr size_t kMost = 512;
  static constexpr size_t kMostOfAnAddress = 256;

  /// The connection is a stranger's as long as this lives.
  class [[nodiscard]] Guard {
   public:
    Guard(Strangers& strangers, BufferedConnection& connection);
    ~Guard() { strangers_.connections_.erase(at_); }
    Guard(const Guard&) = delete;

   private:
    Strangers& strangers_;
    std::list<BufferedConnection*>::iterator at_;
  };

  /// Closes the oldest. False: there are none.
  bool close_oldest();
  size_t size() const { return connections_.size(); }

 private:
  std::list<BufferedConnection*> connections_;  ///< ordered by age, the oldest first
};

}  // namespace kintsugi::rpc
