/// Why a TLS connection did not come about, or broke, in one sentence for the operator of this end.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/runtime/tls/tls_session.h"

struct ssl_st;

namespace kintsugi::runtime {

/// Has the peer's certificate checked, and `peer`, which outlives `ssl`, told why it is refused.
void check_tls_peer(ssl_st& ssl, TlsPeer& peer);

/// REQUIRES: the last call on `ssl` failed, and the error queue of the thread is as it was left. Empties the queue.
Status tls_refusal(const ssl_st& ssl, const TlsIdentity& own, const TlsPeer& peer);

}  // namespace kintsugi::runtime
