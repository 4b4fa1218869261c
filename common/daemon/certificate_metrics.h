/// How long the certificates of a daemon are still valid, for whoever has to replace them in time.
#pragma once

#include <memory>

#include "common/metrics/metrics.h"
#include "common/runtime/clock.h"
#include "common/runtime/tls/tls_credentials.h"

namespace kintsugi::daemon {

/// Tells in the log when the certificate is not valid now. `clock` outlives `metrics`.
void add_certificate_metrics(std::shared_ptr<runtime::TlsCredentials> credentials,
                             const runtime::Clock& clock, metrics::Metrics& metrics);

}  // namespace kintsugi::daemon
