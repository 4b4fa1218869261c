#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {

void MetaServerRig::heartbeat(FakeServer& server) {
  if (!server.registered) {
    proto::RegisterServerRequest request;
    request.set_server_id(server.id.value);
    request.set_address("10.0.2." + std::to_string(server.id.value) + ":9000");
    request.set_rack(server.rack);
    request.set_name(server.name);
    request.set_number(server.number);
    request.set_incarnation(server.incarnation);
    request.set_newest_format(server.newest_format);
    *request.mutable_seen() = server.seen;
    auto registered = call<proto::RegisterServerResponse>(rpc::Method::kRegisterServer, request);
    if (registered && registered->replaces() != 0) {
      request.set_replaces(registered->replaces());
      registered = call<proto::RegisterServerResponse>(rpc::Method::kRegisterServer, request);
    }
    if (!registered) {
      server.refusals.push_back(registered.error());
      return;
    }
    server.registered = true;
    server.number = registered->number();
    server.shown = registered->name();
    server.orders = 0;
    server.wants_report = true;
  }
  if (server.wants_report) send_report(server);
  proto::HeartbeatRequest request;
  request.set_server_id(server.id.value);
  request.set_incarnation(server.incarnation);
  request.set_sequence(++server.sequence);
  request.set_leaving(server.leaving);
  request.set_orders_received(server.orders);
  request.set_orders_done(server.deletes_later ? 0 : server.orders);
  for (uint32_t disk : {0u, 1u}) {
    proto::DiskState& state = *request.add_disk_states();
    state.set_disk(disk);
    if (disk == 1 && server.second_disk_hangs) state.set_health(proto::DiskState::HUNG);
  }
  request.set_total_bytes(1ull << 41);
  request.set_free_bytes(server.free_bytes);
  proto::DeviceSpace& device = *request.add_devices();
  device.set_device(server.id.value);
  device.set_total_bytes(request.total_bytes());
  device.set_free_bytes(server.free_bytes);
  for (ChunkId chunk : std::exchange(server.lost, {})) {
    proto::ReportedChunk* lost = request.add_lost();
    lost->set_stripe_id(chunk.stripe.value);
    lost->set_index(chunk.index);
  }
  const auto response = call<proto::HeartbeatResponse>(rpc::Method::kHeartbeat, request);
  if (!response) {
    server.refusals.push_back(response.error());
    return;
  }
  if (response->register_again()) {
    server.registered = false;
    return heartbeat(server);
  }
  if (server.loses_answers) return;
  if (response->has_metadata()) server.seen = response->metadata();
  if (response->orders() != 0) server.orders = response->orders();
  for (const auto& victim : response->delete_chunks()) {
    const ChunkId chunk{StripeId{victim.stripe_id()}, victim.index()};
    server.chunks.erase(chunk);
    server.deleted.push_back(chunk);
  }
  if (response->report_blocks()) server.wants_report = true;
}

void MetaServerRig::send_report(FakeServer& server, int page_size) {
  ++server.report;
  auto at = server.chunks.begin();
  while (true) {
    proto::BlockReportRequest page;
    page.set_server_id(server.id.value);
    page.set_incarnation(server.incarnation);
    page.set_report_id(server.report);
    page.set_continues(at != server.chunks.begin());
    for (int i = 0; i < page_size && at != server.chunks.end(); ++i, ++at) {
      proto::ReportedChunk* chunk = page.add_chunks();
      chunk->set_stripe_id(at->first.stripe.value);
      chunk->set_index(at->first.index);
      chunk->set_length(at->second.first);
      chunk->set_crc(at->second.second);
      chunk->set_disk(at->first.index % 2);
    }
    page.set_last(at == server.chunks.end());
    const auto taken = call<proto::Empty>(rpc::Method::kBlockReport, page);
    if (!taken) server.refusals.push_back(taken.error());
    if (!taken || page.last()) break;
  }
  server.wants_report = false;
}

proto::SealedStripe MetaServerRig::write(const proto::AllocateStripeResponse& allocated, uint64_t length,
                                         const std::set<uint32_t>& missing) {
  proto::SealedStripe sealed;
  sealed.set_ticket(allocated.ticket());
  *sealed.mutable_stripe() = allocated.stripe();
  proto::Stripe& stripe = *sealed.mutable_stripe();
  stripe.set_length(length);
  const erasure::Policy policy = *erasure::Policy::parse(stripe.policy());
  for (proto::ChunkPlacement& chunk : *stripe.mutable_chunks()) {
    chunk.set_length(erasure::chunk_length(policy, length, chunk.index()));
    chunk.set_crc(static_cast<uint32_t>(stripe.stripe_id() * 100 + chunk.index()));
    if (chunk.server_id() == 0 || missing.contains(chunk.index()) || chunk.length() == 0) {
      chunk.set_server_id(0);
      continue;
    }
    server(ServerId{chunk.server_id()}).chunks[{StripeId{stripe.stripe_id()}, chunk.index()}] = {
        chunk.length(), chunk.crc()};
  }
  return sealed;
}

proto::CommitFileRequest MetaServerRig::commit_request(const std::string& path, uint64_t upload,
                                                       const std::vector<proto::SealedStripe>& stripes,
                                                       bool seal_in_commit) {
  proto::CommitFileRequest request;
  request.set_path(path);
  request.set_upload_id(upload);
  uint64_t size = 0;
  for (const proto::SealedStripe& sealed : stripes) {
    if (seal_in_commit) *request.add_sealed() = sealed;
    proto::Extent* extent = request.add_extents();
    extent->set_file_offset(size);
    extent->set_length(sealed.stripe().length());
    extent->set_stripe_id(sealed.stripe().stripe_id());
    size += sealed.stripe().length();
  }
  request.set_size(size);
  return request;
}

Status MetaServerRig::put(const std::string& path, int stripes, uint64_t length, bool replace) {
  uint64_t upload = 0;
  std::vector<proto::SealedStripe> sealed;
  for (int i = 0; i < stripes; ++i) {
    const auto allocated = allocate(path, upload);
    if (!allocated) return allocated.error();
    upload = allocated->upload_id();
    sealed.push_back(write(*allocated, length));
  }
  proto::CommitFileRequest request = commit_request(path, upload, sealed);
  request.set_replace(replace);
  return status_of(commit(request));
}

Status MetaServerRig::move(ChunkId chunk, ServerId from, ServerId to) {
  const auto stripe = this->stripe(chunk.stripe);
  if (!stripe) return {Code::kNotFound, "no such stripe"};
  const auto may_have_it = [&](const FakeServer& candidate) {
    const auto& chunks = stripe->chunks();
    return candidate.alive && std::none_of(chunks.begin(), chunks.end(), [&](const auto& place) {
             return place.server_id() == candidate.id.value;
           });
  };
  for (const FakeServer& candidate : servers)
    if (!to && may_have_it(candidate)) to = candidate.id;
  const proto::StoredChunk& place = stripe->chunks(static_cast<int>(chunk.index));
  meta->repairs().begins(chunk, to);
  server(to).chunks[chunk] = {place.length(), place.crc()};
  return commit_repair(chunk, from, to);
}

void MetaServerRig::expect_all_chunks_in_place() {
  const keys::Range range = keys::all(keys::Kind::kStripe);
  store->scan(range.begin, range.end, [&](std::string_view key, std::string_view value) {
    const auto stripe = Reader::parse<proto::StoredStripe>(value);
    for (uint32_t i = 0; i < static_cast<uint32_t>(stripe.chunks_size()); ++i) {
      const proto::StoredChunk& chunk = stripe.chunks(static_cast<int>(i));
      if (chunk.server_id() == 0 || !server(ServerId{chunk.server_id()}).alive) continue;
      const ChunkId id{StripeId{keys::first_id(key)}, i};
      EXPECT_TRUE(server(ServerId{chunk.server_id()}).chunks.contains(id)) << "chunk " << id << " is gone";
    }
    return true;
  });
}

}  // namespace kintsugi::metaserver
