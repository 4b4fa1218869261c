#include "client/cli/format.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "common/posix/file_time.h"
#include "common/proto/names.h"

namespace kintsugi::cli {

std::string counted(uint64_t count, std::string_view one, std::string_view many) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

std::string rate_text(uint64_t bytes, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  return fmt::format("{:.2f} s, at {}/s", seconds, human_bytes(static_cast<uint64_t>(rate)));
}

std::string local_time(int64_t nanoseconds) {
  const std::time_t seconds = posix::file_time(nanoseconds).seconds;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::string time_in(double seconds) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto in =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  const std::string text = local_time(std::chrono::nanoseconds(now + in).count());
  return text.substr(0, text.rfind(':'));
}

std::string mode_text(const proto::Attributes& attributes) {
  std::string text(1, attributes.type() == proto::Attributes::DIRECTORY ? 'd' : '-');
  for (int bit = 8; bit >= 0; --bit)
    text += (attributes.mode() >> bit & 1) != 0 ? "xwr"[bit % 3] : '-';
  return text;
}

Json to_json(const proto::Attributes& attributes) {
  const bool is_directory = attributes.type() == proto::Attributes::DIRECTORY;
  return {{"type", is_directory ? "directory" : "file"},
          {"inode", attributes.inode()},
          {"size", attributes.size()},
          {"mode", attributes.mode()},
          {"uid", attributes.uid()},
          {"gid", attributes.gid()},
          {"links", attributes.links()},
          {"modified_ns", attributes.modified_ns()},
          {"changed_ns", attributes.changed_ns()},
          {"policy", attributes.policy()}};
}

Json to_json(const proto::Stripe& stripe) {
  Json chunks = Json::array();
  for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
    chunks.push_back({{"index", chunk.index()},
                      {"server_id", std::to_string(chunk.server_id())},
                      {"server_number", chunk.server_number()},
                      {"server_name", chunk.server_name()},
                      {"address", chunk.address()},
                      {"length", chunk.length()},
                      {"crc", fmt::format("{:08x}", chunk.crc())},
                      {"available", chunk.available()}});
  }
  return {{"stripe_id", stripe.stripe_id()},
          {"policy", stripe.policy()},
          {"length", stripe.length()},
          {"chunks", std::move(chunks)}};
}

namespace {

Json why_slow(const proto::SlowServer& slow) {
  return {{"part", slow.part() == proto::SlowServer::DISK ? "disk" : "link"},
          {"name", slow.name()},
          {"factor", slow.factor()},
          {"seconds", static_cast<double>(slow.since_ms()) / 1e3},
          {"alarm", slow.alarm()}};
}

Json moves_held_back(const proto::HeldBackMoves& moves) {
  Json from = Json::array();
  for (const std::string& name : moves.from())
    from.push_back(name);
  return {{"seconds_left", static_cast<double>(moves.ms_left()) / 1e3}, {"from", std::move(from)}};
}

}  // namespace

static Json disks_json(const proto::ServerState& server) {
  Json disks = Json::array();
  for (const proto::DiskState& disk : server.disk_states()) {
    disks.push_back({{"disk", disk.disk()},
                     {"path", disk.path()},
                     {"health", proto::health_name(disk.health())},
                     {"reason", disk.reason()},
                     {"total_bytes", disk.total_bytes()},
                     {"free_bytes", disk.free_bytes()},
                     {"chunks", disk.chunks()},
                     {"read_errors", disk.read_errors()},
                     {"write_errors", disk.write_errors()},
                     {"oldest_call_seconds", disk.oldest_call_seconds()},
                     {"full", disk.full()}});
  }
  return disks;
}

Json to_json(const proto::ServerState& server) {
  return {{"server_id", std::to_string(server.server_id())},
          {"number", server.number()},
          {"name", server.name()},
          {"address", server.address()},
          {"http_address", server.http_address()},
          {"rack", server.rack()},
          {"liveness", proto::liveness_name(server.liveness())},
          {"total_bytes", server.total_bytes()},
          {"free_bytes", server.free_bytes()},
          {"stored_bytes", server.stored_bytes()},
          {"chunks", server.chunks()},
          {"disks", server.disks()},
          {"failed_disks", server.failed_disks()},
          {"disk_states", disks_json(server)},
          {"clock_difference_seconds", server.clock_difference_seconds()},
          {"seconds_since_heartbeat", server.seconds_since_heartbeat()},
          {"user_bytes_per_second", server.user_bytes_per_second()},
          {"repairs", server.repairs()},
          {"repair_bytes_per_second", server.repair_bytes_per_second()},
          {"up_bytes_per_second", server.up_bytes_per_second()},
          {"down_bytes_per_second", server.down_bytes_per_second()},
          {"cached_chunks", server.cached_chunks()},
          {"busy", server.busy()},
          {"draining", server.draining()},
          {"maintenance_seconds", server.maintenance_seconds()},
          {"reported", server.reported()},
          {"slow", server.has_slow() ? why_slow(server.slow()) : Json()},
          {"held_back", server.has_held_back() ? moves_held_back(server.held_back()) : Json()}};
}

std::string chunks_text(const proto::RepairRecord& record) {
  std::string text = fmt::format("{}:{}", record.stripe_id(), record.index());
  for (int i = 1; i < record.indexes_size(); ++i)
    text += fmt::format(",{}", record.indexes(i));
  return text;
}

/// Adds the parts of a repair's time and traffic.
static void add_timing(Json& to, const proto::Timing& timing) {
  to["seconds"] = timing.seconds();
  to["plan_seconds"] = timing.plan_seconds();
  to["read_seconds"] = timing.read_seconds();
  to["network_seconds"] = timing.network_seconds();
  to["compute_seconds"] = timing.compute_seconds();
  to["write_seconds"] = timing.write_seconds();
  to["bytes_in"] = timing.bytes_in();
  to["bytes_out"] = timing.bytes_out();
  to["disk_bytes"] = timing.disk_bytes();
  to["peak_bytes"] = timing.peak_bytes();
}

Json to_json(const proto::RepairRecord& record, const ServerNames& names) {
  // A degraded read has no destination.
  const std::string destination_name = record.destination() == 0 ? "" : names.name(record.destination());
  Json json{{"repair_id", record.repair_id()},
            {"kind", proto::kind_name(record.kind())},
            {"chunk", fmt::format("{}:{}", record.stripe_id(), record.index())},
            {"code", record.policy()},
            {"shape", proto::shape_name(record.shape())},
            {"trees", std::max<uint32_t>(record.trees(), 1)},
            {"slice_bytes", record.slice_bytes()},
            {"chunk_bytes", record.chunk_bytes()},
            {"outcome", proto::outcome_name(record.outcome())},
            {"detail", record.detail()},
            {"reason", record.reason()},
            {"attempt", record.attempt()},
            {"started_ns", record.started_ns()},
            {"queued_seconds", record.queued_seconds()},
            {"estimated_seconds", record.estimated_seconds()},
            {"destination", std::to_string(record.destination())},
            {"destination_name", destination_name}};
  add_timing(json, record.timing());
  json["indexes"] = Json::array();
  for (uint32_t index : record.indexes())
    json["indexes"].push_back(index);
  if (record.indexes().empty()) json["indexes"].push_back(record.index());
  json["destinations"] = Json::array();
  for (uint64_t destination : record.destinations())
    json["destinations"].push_back(std::to_string(destination));
  if (record.destinations().empty()) json["destinations"].push_back(std::to_string(record.destination()));
  json["destination_names"] = Json::array();
  for (uint64_t destination : record.destinations())
    json["destination_names"].push_back(names.name(destination));
  if (record.destinations().empty()) json["destination_names"].push_back(destination_name);
  json["helpers"] = Json::array();
  for (uint64_t helper : record.helpers())
    json["helpers"].push_back(std::to_string(helper));
  json["helper_names"] = Json::array();
  for (uint64_t helper : record.helpers())
    json["helper_names"].push_back(names.name(helper));
  json["servers"] = Json::array();
  for (const proto::ServerTiming& server : record.servers()) {
    Json one = names.to_json(server.server_id());
    one["role"] = proto::role_name(server.role());
    add_timing(one, server.timing());
    json["servers"].push_back(std::move(one));
  }
  return json;
}

std::string not_reported_text(const google::protobuf::RepeatedPtrField<proto::ServerName>& servers) {
  constexpr int kShown = 8;
  if (servers.empty()) return "";
  std::string text = fmt::format(
      "{} {} not reported all chunks yet: ", counted(static_cast<uint64_t>(servers.size()), "server"),
      servers.size() == 1 ? "has" : "have");
  for (int i = 0; i < std::min(servers.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + servers[i].name();
  if (servers.size() > kShown) text += fmt::format(" and {} more", servers.size() - kShown);
  return text;
}

std::string health_text(const proto::StripeHealth& health) {
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (health.degraded() > 0)
    add(fmt::format("{} missing in {}", counted(health.missing_chunks(), "chunk"),
                    counted(health.degraded(), "stripe")));
  if (health.without_spare() > 0)
    add(fmt::format("{} cannot lose another chunk", counted(health.without_spare(), "stripe")));
  if (health.unreadable() > 0) add(fmt::format("{} cannot be read", counted(health.unreadable(), "stripe")));
  if (!health.not_reported().empty()) add(not_reported_text(health.not_reported()));
  return text;
}

Json names_json(const google::protobuf::RepeatedPtrField<proto::ServerName>& servers) {
  Json names = Json::array();
  for (const proto::ServerName& server : servers)
    names.push_back({{"server_id", std::to_string(server.server_id())},
                     {"server_number", server.number()},
                     {"server_name", server.name()}});
  return names;
}

Json to_json(const proto::StripeHealth& health) {
  return {{"degraded_stripes", health.degraded()},
          {"stripes_without_spare", health.without_spare()},
          {"unreadable_stripes", health.unreadable()},
          {"missing_chunks", health.missing_chunks()},
          {"servers_not_reported", names_json(health.not_reported())}};
}

}  // namespace kintsugi::cli
