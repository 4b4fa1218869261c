#include "tests/tracing/workload.h"

#include <map>
#include <memory>
#include <queue>

#include "common/base/draws.h"
#include "tests/tracing/rig.h"

namespace kintsugi::flow {

const char* const kWorkloadDirectives =
    "begin Queue::put:entry arg2 as job\n"
    "end Queue::take:exit ret as job\n"
    "begin Loop::post:entry arg2 as posted\n"
    "end Loop::run_posted:entry arg1 as posted\n"
    "begin Timers::add:exit ret as timer\n"
    "end Timers::fire:entry arg2 as timer\n"
    "begin Log::append:exit ret as batch shared\n"
    "end Log::commit:entry arg2 as batch\n"
    "begin Log::wait:entry arg2 as waiter\n"
    "end Log::wake:entry arg2 as waiter\n"
    "idle Loop::poll\n"
    "idle Queue::take\n";

namespace {

constexpr uint32_t kNobody = kNone, kServers = 6, kWorkers = 2, kSlotsOfAClient = 16;
enum : uint32_t { kLoop = 1, kLog = 2, kFirstWorker = 3 };

/// Ids that are used again as soon as they are free: pointers, timers.
class Ids {
 public:
  uint64_t take(int64_t now_ns) {
    for (auto& [id, free_since_ns] : ids_)
      if (free_since_ns < now_ns) return free_since_ns = kTaken, id;
    ids_.emplace_back(ids_.size() + 1, kTaken);
    return ids_.size();
  }
  void give(uint64_t id, int64_t now_ns) { ids_[id - 1].second = now_ns; }

 private:
  static constexpr int64_t kTaken = std::numeric_limits<int64_t>::max();
  std::vector<std::pair<uint64_t, int64_t>> ids_;
};

class Cluster {
 public:
  explicit Cluster(const WorkloadSettings& settings) : settings_(settings), draws_(settings.seed) {
    meta_ = rig_.process("metaserver", "metaserver");
    for (uint32_t i = 0; i < kServers; ++i)
      servers_.push_back(rig_.process("chunkserver-" + std::to_string(i), "chunkserver"));
    for (uint32_t i = 0; i * kSlotsOfAClient < settings.concurrent; ++i)
      clients_.push_back(rig_.process("client-" + std::to_string(i), "client"));
    rig_.attribute("batch", true);
    for (size_t slot = 0; slot < settings.concurrent; ++slot)
      post({clients_[slot / kSlotsOfAClient], kLoop}, static_cast<int64_t>(draws_.below(50'000)),
           [this] { next_operation(); });
    for (uint32_t server : servers_)
      post({server, kLoop}, static_cast<int64_t>(draws_.below(500'000)), [this] { heartbeat(); });
  }

  Workload run() {
    while (!tasks_.empty()) {
      Task task = tasks_.top();
      tasks_.pop();
      int64_t& busy = busy_[{task.at.process, task.at.thread}];
      if (busy > task.time_ns) {
        task.time_ns = busy;
        tasks_.push(std::move(task));
        continue;
      }
      at_ = task.at;
      now_ = task.time_ns;
      operation_ = kNobody;
      (*task.run)();
      operation_ = kNobody;
      entry(at_.thread >= kFirstWorker ? "Queue::take" : "Loop::poll");
      busy = now_ + 1;
    }
    workload_.recorded = std::move(rig_.recorded);
    return std::move(workload_);
  }

 private:
  using Run = std::function<void()>;
  struct Task {
    int64_t time_ns = 0;
    uint64_t number = 0;
    At at;
    std::shared_ptr<Run> run;
    bool operator<(const Task& other) const {
      return std::tie(time_ns, number) > std::tie(other.time_ns, other.number);
    }
  };

  void post(At at, int64_t time_ns, Run run) {
    tasks_.push({.time_ns = time_ns,
                 .number = ++tasks_made_,
                 .at = at,
                 .run = std::make_shared<Run>(std::move(run))});
  }

  // Events of the thread that is running.
  void note() {
    workload_.operation.push_back(operation_);
    now_ += 100 + static_cast<int64_t>(draws_.below(400));
  }
  void entry(const std::string& name) { rig_.entry(at_, name, now_), note(); }
  void exit(const std::string& name) { rig_.exit(at_, name, now_), note(); }
  void call(const std::string& name) { entry(name), exit(name); }
  void label(Kind kind, const std::string& attribute, uint64_t value, const std::string& in) {
    rig_.directive(at_, kind, attribute, value, now_, in);
    note();
  }

  // An event loop that wakes up, and what it is woken up for.
  void send(uint32_t to, uint64_t size, Run got) {
    Link& link = links_[{at_.process, to}];
    if (link.channel == kNone) link.channel = rig_.channel();
    entry("Connection::send_frame");
    rig_.send(at_, link.channel, link.offset, size, now_);
    note();
    exit("Connection::send_frame");
    link.arrives = std::max(link.arrives + 1, now_ + 5'000 + static_cast<int64_t>(draws_.below(20'000)));
    const uint32_t operation = operation_;
    post({to, kLoop}, link.arrives,
         [this, operation, channel = link.channel, offset = link.offset, size, got = std::move(got)] {
           exit("Loop::poll");
           entry("Connection::on_readable");
           operation_ = operation;
           rig_.recv(at_, channel, offset, size, now_);
           note();
           entry("Connection::on_frame");
           call("Header::parse");
           got();
           exit("Connection::on_frame");
           exit("Connection::on_readable");
         });
    link.offset += static_cast<int64_t>(size);
  }
  void post_to_loop(Run run) {
    const uint64_t id = posted_[at_.process].take(now_);
    entry("Loop::post");
    label(Kind::kBegin, "posted", id, "Loop::post");
    exit("Loop::post");
    post({at_.process, kLoop}, now_ + 1'000, [this, id, operation = operation_, run = std::move(run)] {
      exit("Loop::poll");
      operation_ = operation;
      entry("Loop::run_posted");
      label(Kind::kEnd, "posted", id, "Loop::run_posted");
      posted_[at_.process].give(id, now_);
      run();
      exit("Loop::run_posted");
    });
  }
  void after(int64_t delay_ns, Run run) {
    const uint64_t id = timers_[at_.process].take(now_);
    entry("Timers::add");
    exit("Timers::add");
    label(Kind::kBegin, "timer", id, "Timers::add");
    post(at_, now_ + delay_ns, [this, id, operation = operation_, run = std::move(run)] {
      exit("Loop::poll");
      operation_ = operation;
      entry("Timers::fire");
      label(Kind::kEnd, "timer", id, "Timers::fire");
      timers_[at_.process].give(id, now_);
      run();
      exit("Timers::fire");
    });
  }
  void on_worker(Run run) {
    const uint64_t job = jobs_[at_.process].take(now_);
    entry("Queue::put");
    label(Kind::kBegin, "job", job, "Queue::put");
    exit("Queue::put");
    const auto worker = kFirstWorker + static_cast<uint32_t>(draws_.below(kWorkers));
    post({at_.process, worker}, now_ + 1'000, [this, job, operation = operation_, run = std::move(run)] {
      operation_ = operation;
      exit("Queue::take");
      label(Kind::kEnd, "job", job, "Queue::take");
      jobs_[at_.process].give(job, now_);
      run();
    });
  }

  void begin_operation() {
    operation_ = static_cast<uint32_t>(workload_.start.size());
    workload_.start.push_back(rig_.start(at_, now_));
    note();
  }

  void next_operation() {
    exit("Loop::poll");
    if (operations_ == settings_.operations) return;
    ++operations_;
    begin_operation();
    switch (draws_.below(4)) {
      case 0:
        if (++writes_ == settings_.faulty) workload_.faulty = operation_;
        return write();
      case 1: return read();
      case 2: return stat();
      default: return after(20'000 + static_cast<int64_t>(draws_.below(100'000)), [this] { write(); });
    }
  }
  void finish(const std::string& name) {
    call(name + "::finish");
    post(at_, now_ + 1'000 + static_cast<int64_t>(draws_.below(20'000)), [this] { next_operation(); });
  }

  void stat() {
    entry("stat");
    ask_meta([this] { call("Namespace::lookup"); }, [this] { finish("stat"); });
    exit("stat");
  }
  void read() {
    entry("read");
    ask_meta([this] { call("Namespace::lookup"), call("Chunks::locate"); },
             [this] { chunks(4'096, 4, false); });
    exit("read");
  }
  void write() {
    entry("write");
    commit([this] {
      call("Code::encode");
      chunks(65'536, 5, true);
    });
    exit("write");
  }

  /// A question that the metaserver answers at once.
  void ask_meta(Run work, Run answered) {
    const uint32_t client = at_.process;
    send(meta_, 120, [this, client, work = std::move(work), answered = std::move(answered)] {
      entry("Service::dispatch");
      work();
      send(client, 300, answered);
      exit("Service::dispatch");
    });
  }

  /// A change that the metaserver answers when its log has it, together with others.
  void commit(Run answered) {
    const uint32_t client = at_.process;
    send(meta_, 200, [this, client, answered = std::move(answered)] {
      entry("Service::dispatch");
      call("Namespace::change");
      entry("Log::append");
      exit("Log::append");
      if (waiting_.empty()) post({meta_, kLog}, now_ + 30'000, [this] { commit_batch(); });
      label(Kind::kBegin, "batch", batch_, "Log::append");
      const uint64_t waiter = ++waiters_;
      entry("Log::wait");
      label(Kind::kBegin, "waiter", waiter, "Log::wait");
      exit("Log::wait");
      waiting_.push_back(
          {waiter, operation_, now_, [this, client, answered] { send(client, 80, answered); }});
      exit("Service::dispatch");
    });
  }
  void commit_batch() {
    exit("Loop::poll");
    std::vector<Waiting> batch = std::move(waiting_);
    waiting_.clear();
    now_ = std::max(now_, batch.back().since_ns + 100);
    operation_ = batch.front().operation;  // as the text attributes shared work
    entry("Log::commit");
    label(Kind::kEnd, "batch", batch_++, "Log::commit");
    call("Log::serialise");
    call("fdatasync");
    for (Waiting& one : batch) {
      operation_ = one.operation;
      entry("Log::wake");
      label(Kind::kEnd, "waiter", one.id, "Log::wake");
      post_to_loop(one.woken);
      exit("Log::wake");
    }
    exit("Log::commit");
  }

  /// A batch goes to several chunkservers at once; the client goes on when all have answered.
  struct Batch {
    uint32_t client, missing;
    uint64_t bytes;
    bool writes;
  };
  void chunks(uint64_t bytes, uint32_t count, bool writes) {
    const auto batch = std::make_shared<Batch>(Batch{at_.process, count, bytes, writes});
    const uint64_t first = draws_.below(kServers);
    for (uint32_t i = 0; i < count; ++i)
      send(servers_[(first + i) % kServers], writes ? bytes : 100, [this, batch, i] {
        entry("Service::dispatch");
        call("Chunks::find");
        on_worker([this, batch, i] { use_disk(batch, i); });
        exit("Service::dispatch");
      });
  }
  void use_disk(const std::shared_ptr<Batch>& batch, uint32_t place) {
    const Fault fault = operation_ == workload_.faulty ? settings_.fault : Fault::kNone;
    const std::string disk = batch->writes ? "Disk::write" : "Disk::read",
                      file = batch->writes ? "pwrite" : "pread";
    entry(disk);
    if (fault != Fault::kSkipsChecksum) call("crc32c");
    entry(file);
    if (fault == Fault::kSlowDisk && place == 2) now_ += 5'000'000;
    exit(file);
    if (fault == Fault::kFreesTwice && place == 2) call("Buffer::free");
    exit(disk);
    post_to_loop([this, batch, again = fault == Fault::kSendsAgain && place == 2] {
      for (int i = again ? 7 : 0; i > 0; --i)
        send(batch->client, 60, [] {});
      send(batch->client, batch->writes ? 60 : batch->bytes, [this, batch] {
        call("Stripe::arrived");
        if (--batch->missing == 0) finish(batch->writes ? "write" : "read");
      });
    });
  }

  void heartbeat() {
    exit("Loop::poll");
    if (operations_ == settings_.operations) return;
    begin_operation();
    entry("Heartbeat::tick");
    ask_meta([this] { call("Cluster::alive"); }, [this] { call("Heartbeat::answered"); });
    exit("Heartbeat::tick");
    post(at_, now_ + 2'000'000, [this] { heartbeat(); });
  }

  struct Link {
    uint32_t channel = kNone;
    int64_t offset = 0, arrives = 0;
  };
  struct Waiting {
    uint64_t id;
    uint32_t operation;
    int64_t since_ns;
    Run woken;
  };

  WorkloadSettings settings_;
  Draws draws_;
  Rig rig_;
  Workload workload_;
  uint32_t meta_;
  std::vector<uint32_t> servers_, clients_;
  std::priority_queue<Task> tasks_;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> busy_;
  std::map<std::pair<uint32_t, uint32_t>, Link> links_;
  std::map<uint32_t, Ids> timers_, jobs_, posted_;  ///< by process
  std::vector<Waiting> waiting_;
  uint64_t tasks_made_ = 0, batch_ = 1, waiters_ = 0;
  size_t operations_ = 0, writes_ = 0;
  At at_;
  int64_t now_ = 0;
  uint32_t operation_ = kNobody;
};

}  // namespace

Workload workload_of(const WorkloadSettings& settings) {
  return Cluster(settings).run();
}

}  // namespace kintsugi::flow
