/// Changes that were carried out, so that a repetition is answered and not done again. Each is noted in the batch that
/// makes the change, so a crash keeps both or none.
#pragma once

#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/proto/agreed_numbers.h"
#include "common/proto/inode.pb.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// The inode that the change returned when it was carried out (or 1 when it returns none; of a copy, its length);
/// nothing when it was not.
std::optional<InodeId> carried_out(const Reader& reader, const proto::Change& change);
/// The change was carried out, or one that its session made after it had heard how that ended. Who carries it out in
/// steps, for a call that broke and was repeated, asks before each: what the session does next must not be undone by a
/// step that comes late.
bool is_over(const Reader& reader, const proto::Change& change);
/// The transaction is this session's from then on (Transaction::by).
void note_change(Transaction& transaction, const proto::Change& change, InodeId result);
/// There is such a session, whatever it changes.
void note_session(Transaction& transaction, uint64_t session);

/// The session lost leases or locks by its silence, and may not know it yet: a metaserver that starts anew does not
/// believe what it tells of what it had. Not `lost`: it knows.
void note_loss(Transaction& transaction, uint64_t session, bool lost);
bool noted_loss(const Reader& reader, uint64_t session);

/// Ids of inodes that only one session may use: [first, first + count).
struct ReservedInodes {
  uint64_t first = 0;
  uint32_t count = 0;
  bool contains(uint64_t id) const { return id >= first && id - first < count; }
};
/// So many ranges of a session are remembered; a new one takes the place of the oldest.
inline constexpr uint64_t kMaxReservations = 4;
std::vector<ReservedInodes> reserved_for(const Reader& reader, uint64_t session);
void note_reserved(Transaction& transaction, uint64_t session, const ReservedInodes& ids);

/// The session has ended by its silence. What it changed is remembered all the same: it may ask for it again when it
/// is back.
void note_ended(Transaction& transaction, uint64_t session);
bool noted_end(const Reader& reader, uint64_t session);

/// The session has ended.
void forget_changes(Transaction& transaction, uint64_t session);

}  // namespace kintsugi::metaserver
