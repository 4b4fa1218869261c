/// Who has connections to a server with which of the cluster's secrets, so that whoever drops one knows who would be cut off.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "common/proto/token.pb.h"
#include "common/rpc/token.h"
#include "common/runtime/clock.h"

namespace kintsugi::rpc {

/// The open connections of a server.
class SecretUses : public std::enable_shared_from_this<SecretUses> {
 public:
  static constexpr int kMostTold = 100;

  /// One connection, while this lives.
  class Connection {
   public:
    /// Use SecretUses::opened.
    Connection(std::shared_ptr<SecretUses> all, uint64_t secret, std::string who, TimePoint now)
        : all_(std::move(all)), secret_(secret), who_(std::move(who)), used_(now) {
      all_->connections_.insert(this);
    }
    ~Connection() { all_->connections_.erase(this); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// A request has come over it.
    void used(TimePoint now) { used_ = now; }
    /// Its token was refused, as one that is revoked or has expired is, or is good: who is refused loses nothing when the
    /// secret is dropped, and does not count.
    void set_refused(bool refused) { refused_ = refused; }

   private:
    friend class SecretUses;
    const std::shared_ptr<SecretUses> all_;
    const uint64_t secret_;
    const std::string who_;
    TimePoint used_;
    bool refused_ = false;
  };

  std::shared_ptr<Connection> opened(const Principal& by, const std::string& address, TimePoint now);
  /// Adds those that were proven with another secret than `in_use`, or by a token that another one signed and that is not
  /// refused: by who it is, the latest use first, at most kMostTold.
  void tell(uint64_t in_use, TimePoint now, proto::SecretStatusResponse& response) const;

 private:
  std::set<const Connection*> connections_;
};

}  // namespace kintsugi::rpc
