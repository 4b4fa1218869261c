/// Chooses servers for the chunks of a stripe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/runtime/random.h"
#include "erasure/policy.h"

namespace kintsugi::metaserver {

/// A server that may take one more chunk.
struct Candidate {
  ServerId id;
  std::string rack;
  uint64_t free_bytes = 0;
  bool slow = false;  ///< servers that are not slow are preferred
};

/// Picks `count` distinct candidates, none of which is in `taken`, so that all chunks of the stripe, those on `taken`
/// included, spread over racks as evenly as the candidates allow: a server in a rack that holds fewer chunks always
/// goes first. So no rack holds more than ceil(chunks / racks), and the loss of one rack costs at most m chunks
/// whenever there are racks enough. Slow servers are left out unless the others are too few, or would crowd a rack
/// more. Within that a server is drawn with a chance in proportion to its free bytes. Returns an empty vector when
/// there are too few candidates.
std::vector<ServerId> choose_servers(size_t count, std::span<const Candidate> candidates,
                                     std::span<const Candidate> taken, runtime::Random& random);

/// Which of the servers take new chunks, and why the others do not.
struct UsableServers {
  std::vector<Candidate> servers;
  size_t alive = 0;
  size_t full = 0;      ///< servers that are alive and have less than `needed_bytes` free
  size_t draining = 0;  ///< servers that are alive and being drained
  size_t excluded = 0;  ///< servers that are alive and that the caller refuses
  /// Servers that are known and have not called since this metaserver started, a short time ago.
  size_t expected = 0;
  uint64_t needed_bytes = 0;
};

/// The error "policy rs-6-3-1024k needs 9 servers; 10 are alive, of which 7 have less than 64.0 MiB free". kNoSpace
/// when space is what is missing, else kUnavailable. It names the policy that people chose; `policy` is that of the
/// stripe, which has copies instead when the file is small.
Status too_few_servers(const erasure::Policy& chosen, const erasure::Policy& policy,
                       const UsableServers& usable);

}  // namespace kintsugi::metaserver
