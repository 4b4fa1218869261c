#include "common/proto/verdict_advice.h"

#include <string_view>

#include <fmt/format.h>

#include "common/proto/room_verdicts.h"
#include "common/proto/verdicts.h"

namespace kintsugi::proto {
namespace {

constexpr const char* kReport = "Keep the output of `kintsugi diagnose --json` for a report, then restart ";
constexpr double kGiB = 1024.0 * 1024 * 1024;

struct Advice {
  std::string happened;
  std::string action;
};

std::string shown(std::string_view text) {
  return printable(text, 128);
}

Advice advice_on_device(const Verdict& verdict, const std::string& who) {
  if (is_machines_disks(verdict))
    return {"the disks of several servers of " + who + " do not complete their requests at the same time",
            "Check what they have in common: the disk, its controller, the hypervisor"};
  const std::string device = verdict.device().empty() ? "a disk" : shown(verdict.device());
  if (verdict.factor() > 0)
    return {fmt::format("{} of {} is {:.1f} times slower than it should be", device, who, verdict.factor()),
            "Check that disk, and replace it if it stays slow"};
  return {fmt::format("{} of {} does not complete its requests", device, who),
          "Check that disk (`kintsugi server list`, the kernel's log), and replace it if it stays so"};
}

Advice advice_on_resource(const Verdict& verdict, const std::string& who) {
  const bool takes_more = !verdict.region().empty() && verdict.factor() > 0;
  if (takes_more)
    return {fmt::format("{} takes more and more {}", who, shown(verdict.region())),
            fmt::format("{}{} before its machine runs out of it", kReport, who)};
  return {who + " gets too little CPU or memory", "Move other work away from its machine"};
}

/// Advice on a client or mount. One that does not report is in no region.
Advice advice_on_client(const Verdict& verdict, const std::string& who, const std::string& both) {
  if (verdict.region().empty())
    return {who + " does not answer any more, and keeps what others wait for",
            "See whether it still runs, and its machine; it loses its write leases after ten seconds"};
  return {both + ": an application does not read or write what it asked for",
          "Look at that application, the servers are not to blame"};
}

Advice advice_on_end(const Verdict& verdict, const std::string& who) {
  const Forecast& forecast = verdict.forecast();
  const std::string resource = verdict.region() == "fds" ? "file descriptors" : shown(verdict.region());
  if (verdict.region() == "rss")
    return {fmt::format("{} will use up the memory of its machine ({:.1f} of {:.1f} GiB now)", who,
                        forecast.now() / kGiB, forecast.limit() / kGiB),
            fmt::format("Before then, give it more memory or restart {} at a quiet time", who)};
  if (forecast.limit() == 0)  // room that is left
    return {fmt::format("{} will have no {} left", who == "cluster" ? "the cluster" : who,
                        verdict.region().ends_with("free_bytes") ? "room on disks" : resource),
            "Add disks or servers, or remove files (`kintsugi df`)"};
  return {fmt::format("{} will use up its {} ({:.0f} of {:.0f} now)", who, resource, forecast.now(),
                      forecast.limit()),
          fmt::format("Before then, raise that limit or restart {} at a quiet time", who)};
}

Advice advice_on_pauses(const Verdict& verdict, const std::string& who) {
  if (!verdict.region().empty())
    return {fmt::format("{} of {} stall repeatedly at the same time", shown(verdict.region()), who),
            "Check what they have in common: the disk, its controller, the hypervisor"};
  if (!verdict.device().empty())
    return {fmt::format("{} of {} stalls repeatedly", shown(verdict.device()), who),
            "Check that disk (`kintsugi server list`, the kernel's log), and replace it if it stays so"};
  return {who + " stalls repeatedly",
          "Check its machine: memory, the hypervisor, and whatever stops processes there"};
}

Advice advice_on(const Verdict& verdict) {
  const std::string who = verdict.server().empty() ? "an unknown process" : shown(verdict.server());
  const std::string both = verdict.peer().empty() ? who : who + " and " + shown(verdict.peer());
  switch (verdict.kind()) {
    case Verdict::RUNNING: return {who + " is busy with one step and serves nobody", kReport + who};
    case Verdict::SILENT:
      if (is_without_repairs(verdict))
        return {"no repair manager is registered",
                "Start kintsugi-repair-manager (`kintsugi cluster start` does)"};
      return {who + " does not answer", "Check that its process and its machine run, and start it again"};
    case Verdict::NOT_SERVED: return {who + " does not handle a request that was sent to it", kReport + who};
    case Verdict::UNANSWERED:
      return {who + " has handled a request, and its answer did not come to the caller", kReport + who};
    case Verdict::DEVICE: return advice_on_device(verdict, who);
    case Verdict::LINK: return {both + " do not hear each other", "Check the network between them"};
    case Verdict::DEADLOCK: return {"tasks of " + who + " wait for each other", kReport + who};
    case Verdict::CLIENT: return advice_on_client(verdict, who, both);
    case Verdict::SLOW:
      return {who + " is slower than usual", "Look at the load, the disks and the network of its machine"};
    case Verdict::BEHAVIOUR:
      return {who + " takes other times than usual for the same work", "Look at it when there is time"};
    case Verdict::RESOURCE: return advice_on_resource(verdict, who);
    case Verdict::HOST:
      return {who + " is short of CPU time, and what runs on it is slow",
              "Move other work away from that machine"};
    case Verdict::MESSAGES:
      return {who + " sends data that is damaged, missing, or comes twice",
              "Check its disks, memory and network card, and run `kintsugi fsck --deep`"};
    case Verdict::FULL:
      if (is_metadata_full(verdict))
        return {who + " has no room on its own disk: " + missing_room(verdict),
                "Make room on the disk of its data directory"};
      return {who + " has no room: " + missing_room(verdict),
              "Remove files, or add disks or servers (`kintsugi df`)"};
    case Verdict::PAUSES: return advice_on_pauses(verdict, who);
    case Verdict::UNREACHED:
      return {fmt::format("{} do not reach {}", shown(verdict.region()), who),
              "Check its firewall, its network card and the largest packet (MTU) of the links to it"};
    case Verdict::LOSSES:
      return {verdict.peer().empty() ? "packets to and from " + who + " are lost"
                                     : fmt::format("packets between {} are lost", both),
              "Check the network cards, cables and switch ports there"};
    case Verdict::ERRORS:
      return {fmt::format("{} answers most {} requests with an error", who, shown(verdict.region())),
              "Look at its log, and restart it"};
    case Verdict::CLOCK:
      return {"the wall clock of " + who + " jumped, or is wrong",
              "Check the time service (NTP) of its machine"};
    case Verdict::RUNS_OUT: return advice_on_end(verdict, who);
    default:
      return {who + " is stuck in one step", fmt::format("{}{} if it makes no progress", kReport, who)};
  }
}

/// What it means for users.
std::string effect_of(const Verdict& verdict) {
  if (is_metaserver_silent(verdict)) return "nothing can be stored or found until it is back";
  if (is_without_repairs(verdict)) return "lost chunks are not rebuilt until one runs";
  if (is_metadata_full(verdict)) return "nothing new is stored, what is there is read and can be removed";
  if (verdict.kind() == Verdict::FULL) return "writes fail, what is there is read and can be removed";
  if (verdict.masked())
    return verdict.kind() == Verdict::CLIENT ? "only its own operations wait"
                                             : "operations continue without it";
  if (verdict.gone_around()) return "reads, placements and repairs avoid it";
  if (verdict.kind() == Verdict::RUNS_OUT)
    return "nothing fails yet; it will in " + time_left(verdict.forecast().seconds_left());
  if (verdict.waiters() == 0) return "no operation waits for it now";
  const int operations = verdict.operations_size();
  if (operations == 0) return "others wait for it";
  if (operations == 1) return "1 operation waits";
  return fmt::format("{}{} operations wait", operations >= kMostNames ? "at least " : "", operations);
}

}  // namespace

std::string advise(const Verdict& verdict) {
  const auto [happened, action] = advice_on(verdict);
  return fmt::format("{}{}; {}. {}.", verdict.confidence() == Verdict::UNSURE ? "Possibly: " : "", happened,
                     effect_of(verdict), action);
}

}  // namespace kintsugi::proto
