#include "common/daemon/certificate_metrics.h"

#include "common/log/log.h"

namespace kintsugi::daemon {

void add_certificate_metrics(std::shared_ptr<runtime::TlsCredentials> credentials,
                             const runtime::Clock& clock, metrics::Metrics& metrics) {
  const std::string why_not = credentials->current(clock.now())->why_not_valid(clock.wall_now());
  if (!why_not.empty()) log::warning("tls: other hosts refuse this daemon: {}", why_not);
  const auto gauge = [&](const char* of, WallTime (runtime::TlsIdentity::*expires)() const) {
    metrics.gauge("kintsugi_certificate_expires_seconds",
                  "Seconds until the certificate expires; negative when it has", {{"certificate", of}},
                  [credentials, &clock, expires] {
                    return to_seconds((*credentials->current(clock.now()).*expires)() - clock.wall_now());
                  });
  };
  gauge("own", &runtime::TlsIdentity::expires);
  gauge("authority", &runtime::TlsIdentity::authority_expires);
}

}  // namespace kintsugi::daemon
