/// The network with TLS on every connection that leaves the host. Whoever dials or listens does not know of it.
#pragma once

#include <memory>

#include "common/runtime/clock.h"
#include "common/runtime/network.h"
#include "common/runtime/tls/tls_identity.h"

namespace kintsugi::runtime {

class TlsCredentials;
enum class TlsEnd;

/// How a process speaks to other hosts.
struct TlsPolicy {
  std::shared_ptr<TlsCredentials> credentials = nullptr;  ///< null: without TLS
  /// Without credentials nothing listens at an address that other hosts reach.
  bool require = false;
};

/// A policy with the credentials in these files, without any when none is named.
Result<TlsPolicy> tls_policy(const TlsFiles& files, bool require);
/// For programs that people start: KINTSUGI_TLS_CERTIFICATE, KINTSUGI_TLS_KEY, KINTSUGI_TLS_AUTHORITY.
TlsFiles tls_files_of_environment();

/// Both ends of a connection speak TLS unless each sees the other at a loopback address: they agree on that without a
/// word. Without credentials connections are those of `network`, untouched.
class TlsNetwork final : public Network {
 public:
  /// `network` and `clock` outlive it, and it outlives its listeners.
  TlsNetwork(Network& network, Clock& clock, TlsPolicy policy);
  ~TlsNetwork() override;

  /// The handshake comes with the first byte, and so do its errors (TlsConnection).
  asio::awaitable<Result<std::unique_ptr<Connection>>> dial(Endpoint to, TimePoint deadline,
                                                            TaskGroup* stops_with) override;
  /// kInvalidArgument when the policy forbids the address.
  Result<std::unique_ptr<Listener>> listen(Endpoint at) override;
  Result<std::unique_ptr<Listener>> listen_for_pages(Endpoint at) override;

  const TlsPolicy& policy() const { return policy_; }

 private:
  class TlsListener;
  asio::awaitable<Result<std::unique_ptr<Connection>>> dial_encrypted(Endpoint to, TimePoint deadline,
                                                                      TaskGroup* stops_with);
  Result<std::unique_ptr<Listener>> listen_as(TlsEnd end, Endpoint at);

  Network& network_;
  Clock& clock_;
  const TlsPolicy policy_;
};

/// Whether `host` is an address of the loopback interface. False for every name.
bool is_loopback(const std::string& host);

}  // namespace kintsugi::runtime
