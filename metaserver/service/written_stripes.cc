#include "metaserver/service/written_stripes.h"

#include <fmt/format.h>

namespace kintsugi::metaserver {

void WrittenStripes::note_placed(const proto::SealedStripe& sealed) {
  const StripeId stripe{sealed.stripe().stripe_id()};
  const auto allocated = allocations_.allocated_at(stripe);
  for (const proto::ChunkPlacement& chunk : sealed.stripe().chunks()) {
    const ServerId server{chunk.server_id()};
    if (!server) continue;
    chunks_.set_placed({stripe, chunk.index()}, server);
    reports_.note_sealed(server, allocated);
  }
}

void WrittenStripes::note_placed(const google::protobuf::RepeatedPtrField<proto::SealedStripe>& sealed) {
  for (const proto::SealedStripe& one : sealed)
    note_placed(one);
}

void WrittenStripes::report(const google::protobuf::RepeatedPtrField<proto::SealedStripe>& sealed,
                            const std::vector<ChunkId>& missing) {
  report_missing(missing);
  for (const proto::SealedStripe& one : sealed)
    report_unreachable(one);
}

void WrittenStripes::report(const proto::SealedStripe& sealed, const std::vector<ChunkId>& missing) {
  report_missing(missing);
  report_unreachable(sealed);
}

void WrittenStripes::report_missing(const std::vector<ChunkId>& missing) {
  for (ChunkId chunk : missing)
    host_->chunk_lost(chunk, "missing since the write");
}

void WrittenStripes::report_unreachable(const proto::SealedStripe& sealed) {
  for (const proto::ChunkPlacement& chunk : sealed.stripe().chunks()) {
    if (chunk.server_id() == 0 || chunk.length() == 0 ||
        !chunks_.servers().is_dead(ServerId{chunk.server_id()}))
      continue;
    host_->chunk_lost({StripeId{sealed.stripe().stripe_id()}, chunk.index()},
                      fmt::format("server {} died before the stripe was sealed",
                                  chunks_.servers().name_of(ServerId{chunk.server_id()})));
  }
}

}  // namespace kintsugi::metaserver
