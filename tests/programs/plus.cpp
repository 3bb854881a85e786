/* C++ in ranks: objects with constructors and destructors, exceptions, thread-local objects,
 * threads. */
#include <openspin.h>

#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

struct noted {
    unsigned rank = spin_rank();
    ~noted() { std::printf("rank %u: destroyed\n", rank); }
};
static noted global;
static std::map<std::string, unsigned> names{{"rank", spin_rank()}};
static thread_local std::vector<int> local(3, 7);

static void thrower(unsigned depth) {
    std::string text = "rank " + std::to_string(spin_rank());
    if (!depth)
        throw std::runtime_error(text);
    thrower(depth - 1);
    usleep(1);
}

static int threads() {
    std::mutex mutex;
    std::condition_variable changed;
    int value = 0;
    std::thread other([&] {
        std::unique_lock<std::mutex> lock(mutex);
        while (value != 1)
            changed.wait(lock);
        local.push_back(1);
        value = (int)local.size();
        changed.notify_all();
    });
    {
        std::unique_lock<std::mutex> lock(mutex);
        usleep(5);
        value = 1;
        changed.notify_all();
        changed.wait(lock, [&] { return value == 4; });
    }
    other.join();
    return local.size() == 3 ? 0 : 5;
}

int main(int argc, char **) {
    usleep(1 + spin_rank());
    if (global.rank != spin_rank() || names["rank"] != spin_rank() || local[2] != 7)
        return 1;
    for (int i = 0; i < 3; i++)
        try {
            thrower(5);
            return 2;
        } catch (const std::exception &e) {
            usleep(1);
            if (e.what() != "rank " + std::to_string(spin_rank()))
                return 3;
        }
    return argc > 1 ? threads() : 0;
}
