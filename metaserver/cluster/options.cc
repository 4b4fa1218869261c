#include "metaserver/cluster/options.h"

#include <fmt/format.h>

#include "erasure/policy.h"

namespace kintsugi::metaserver {

Status MetaServerOptions::check() const {
  constexpr uint64_t kMiB = 1 << 20;
  if (chunk_bytes < kMiB || chunk_bytes > 256 * kMiB) {
    return invalid(fmt::format("chunk_bytes is {}: must be 1 to 256 MiB", chunk_bytes));
  }
  if (heartbeat_interval < 10ms || heartbeat_interval > 60s)
    return invalid("heartbeat_interval must be 10 ms to 60 s");
  if (suspect_after <= heartbeat_interval)
    return invalid("suspect_after must be longer than heartbeat_interval");
  if (dead_after <= suspect_after) return invalid("dead_after must be longer than suspect_after");
  if (upload_ttl < dead_after) return invalid("upload_ttl must not be shorter than dead_after");
  if (upload_idle < suspect_after || upload_idle > upload_ttl)
    return invalid("upload_idle must be between suspect_after and upload_ttl");
  if (quarantine_retention < upload_ttl || quarantine_retention > 24h * 3650)
    return invalid("quarantine_retention must be between upload_ttl and ten years");
  const auto policy = erasure::Policy::parse(default_policy);
  if (!policy) return policy.error().with_context("policy");
  return {};
}

}  // namespace kintsugi::metaserver
