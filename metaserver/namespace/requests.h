/// Changes by path that were carried out of late, so that one whose answer was lost is answered when it comes again,
/// and not done twice. Whoever makes them has no session that would remember them (changes.h): the command line comes
/// and goes.
#pragma once

#include "common/proto/types.pb.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// So many are remembered. A later one takes the place of the one that has its slot, which a client that repeats
/// within seconds meets about once in as many requests; then it is told what it would have been told without this
/// ("does not exist").
inline constexpr uint64_t kRequestSlots = 65'536;

bool request_carried_out(const Reader& reader, const proto::Change& change);
/// To be called in the transaction that carries the request out.
void note_request(Transaction& transaction, const proto::Change& change);

}  // namespace kintsugi::metaserver
