/* DPDK's own i40e loops, timed as ours are: rings in ordinary memory, and a card that is played between the samples.
 *
 * i40e_loops PAGES CORE LOOP ISA timed TURNS    tells DPDK's version, then the ticks a packet of each turn, a line each
 * i40e_loops PAGES CORE LOOP ISA traced ROUNDS  runs to be traced: stops itself in front of and behind each of the rounds
 *
 * PAGES is huge or small; LOOP i40e-rx, i40e-tx, i40e-io or i40e-macswap; ISA ssse3, avx2 or avx512.
 *
 * The queues' structures are private to the driver. What is declared here has their fields in their order (DPDK 22.11,
 * drivers/net/i40e/i40e_rxtx.h), and a run in which the functions don't do with them what they should ends with an error. */

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <tmmintrin.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

enum { RING = 1024, QUARTER = RING / 4, BURST = 32, FRAME = 60, SAMPLES = 100, WARM = 40, POOL = 8191, CACHE = 512 };

struct wide { uint64_t word[4]; };
struct narrow { uint64_t word[2]; };

struct receive_queue {
	struct rte_mempool *pool;
	volatile struct wide *ring;
	uint64_t ring_address;
	struct rte_mbuf **buffers;
	uint16_t count, free_threshold, tail, held;
	struct rte_mbuf *first, *last;
	struct rte_mbuf none;
	uint16_t staged, next_staged, trigger;
	struct rte_mbuf *stage[64];
	uint16_t to_arm, arm_from;
	uint64_t start_value;
	uint16_t port;
	uint8_t crc_len, flow_director;
	uint16_t queue, register_index;
	uint8_t drop;
	volatile uint8_t *tail_register;
	void *vsi;
	uint16_t buffer_len, header_len, most_len;
	uint8_t split;
	bool set, deferred;
	uint16_t vector;
	uint8_t class;
	uint64_t offloads;
	const void *zone;
};

struct sent { struct rte_mbuf *buffer; uint16_t next, last; };

struct transmit_queue {
	uint16_t count;
	uint64_t ring_address;
	volatile struct narrow *ring;
	void *buffers;
	uint16_t tail;
	volatile uint8_t *tail_register;
	uint16_t used, cleaned, free, free_threshold, mark_threshold;
	uint8_t prefetch, host, write_back;
	uint16_t port, queue, register_index;
	void *vsi;
	uint16_t next_done, next_mark;
	bool set, deferred;
	uint8_t class;
	uint64_t offloads;
	const void *zone;
};

typedef uint16_t (*receive_function)(void *, struct rte_mbuf **, uint16_t);
typedef uint16_t (*transmit_function)(void *, struct rte_mbuf **, uint16_t);

uint16_t i40e_recv_pkts_vec(void *, struct rte_mbuf **, uint16_t);
uint16_t i40e_recv_pkts_vec_avx2(void *, struct rte_mbuf **, uint16_t);
uint16_t i40e_recv_pkts_vec_avx512(void *, struct rte_mbuf **, uint16_t);
uint16_t i40e_xmit_fixed_burst_vec(void *, struct rte_mbuf **, uint16_t);
uint16_t i40e_xmit_pkts_vec_avx2(void *, struct rte_mbuf **, uint16_t);
uint16_t i40e_xmit_pkts_vec_avx512(void *, struct rte_mbuf **, uint16_t);

static const struct { const char *name; receive_function receive; transmit_function transmit; } sets[] = {
	{ "ssse3", i40e_recv_pkts_vec, i40e_xmit_fixed_burst_vec },
	{ "avx2", i40e_recv_pkts_vec_avx2, i40e_xmit_pkts_vec_avx2 },
	{ "avx512", i40e_recv_pkts_vec_avx512, i40e_xmit_pkts_vec_avx512 },
};
static const char *const loops[] = { "i40e-rx", "i40e-tx", "i40e-io", "i40e-macswap" };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static void *allocate(size_t len)
{
	void *at = aligned_alloc(4096, (len + 4095) & ~(size_t)4095);
	if (!at)
		fail("no memory");
	memset(at, 0, len);
	return at;
}

static struct rte_mempool *pool;

struct ground {
	struct receive_queue rx;
	struct transmit_queue tx;
	receive_function receive;
	transmit_function transmit;
	unsigned loop, rx_head, tx_head;
	uint32_t tails[32];
};

static void set_receive(struct ground *ground)
{
	/* The vector loops read some descriptors and buffers behind the ring's end. */
	struct receive_queue *rx = &ground->rx;
	rx->pool = pool;
	rx->ring = allocate((RING + 64) * sizeof(struct wide));
	rx->buffers = allocate((RING + 64) * sizeof(void *));
	rx->count = RING;
	rx->free_threshold = 32;
	rx->buffer_len = 2048;
	rx->tail_register = (void *)&ground->tails[0];
	/* The first field of a VSI is its adapter, in which a table of packet types is looked up. */
	void **vsi = allocate(4096);
	vsi[0] = allocate(16 << 20);
	rx->vsi = vsi;
	struct rte_mbuf start = { .nb_segs = 1, .data_off = RTE_PKTMBUF_HEADROOM };
	rte_mbuf_refcnt_set(&start, 1);
	memcpy(&rx->start_value, &start.rearm_data, sizeof(rx->start_value));
	if (rte_mempool_get_bulk(pool, (void **)rx->buffers, RING) != 0)
		fail("no buffers");
	for (int i = 0; i < RING; i++) {
		memcpy(&rx->buffers[i]->rearm_data, &rx->start_value, 8);
		rx->ring[i].word[0] = rte_mbuf_data_iova_default(rx->buffers[i]);
	}
	for (int i = RING; i < RING + 64; i++)
		rx->buffers[i] = &rx->none;
}

static void set_transmit(struct ground *ground)
{
	struct transmit_queue *tx = &ground->tx;
	tx->ring = allocate((RING + 64) * sizeof(struct narrow));
	tx->buffers = allocate((RING + 64) * sizeof(struct sent));
	tx->count = RING;
	tx->free = RING - 1;
	tx->cleaned = RING - 1;
	tx->free_threshold = tx->mark_threshold = 32;
	tx->next_done = tx->next_mark = 31;
	tx->offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	tx->tail_register = (void *)&ground->tails[16];
}

static struct ground *new_ground(unsigned loop, unsigned set)
{
	struct ground *ground = allocate(sizeof(*ground));
	ground->loop = loop;
	ground->receive = sets[set].receive;
	ground->transmit = sets[set].transmit;
	set_receive(ground);
	set_transmit(ground);
	return ground;
}

/* The card receives a quarter of a ring and has sent everything. Words as the datasheet has them. */
static void card(struct ground *ground)
{
	const uint64_t done = 1, end = 1 << 1, checked = 1 << 3, hash = 3 << 12, type = 24ull << 30;
	if (ground->loop != 1) {
		for (int i = 0; i < QUARTER; i++) {
			volatile struct wide *at = &ground->rx.ring[ground->rx_head];
			at->word[0] = 0x1234567800000000ull;
			at->word[1] = done | end | checked | hash | type | (uint64_t)FRAME << 38;
			at->word[2] = at->word[3] = 0;
			ground->rx_head = (ground->rx_head + 1) % RING;
		}
	}
	while (ground->tx_head != ground->tx.tail) {
		volatile struct narrow *at = &ground->tx.ring[ground->tx_head];
		if (at->word[1] & 1 << 5)
			at->word[1] = 0xf;
		ground->tx_head = (ground->tx_head + 1) % RING;
	}
}

static inline void swap(struct rte_mbuf **packets, unsigned count)
{
	const __m128i order = _mm_setr_epi8(6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 12, 13, 14, 15);
	for (unsigned i = 0; i + 4 <= count; i += 4) {
		__m128i *at[4], header[4];
		for (unsigned j = 0; j < 4; j++) {
			at[j] = rte_pktmbuf_mtod(packets[i + j], __m128i *);
			header[j] = _mm_loadu_si128(at[j]);
		}
		for (unsigned j = 0; j < 4; j++)
			_mm_storeu_si128(at[j], _mm_shuffle_epi8(header[j], order));
	}
}

/* What is timed: a quarter of a ring. Returns packets. */
static __attribute__((noinline)) unsigned work(struct ground *ground)
{
	struct rte_mbuf *packets[BURST];
	unsigned total = 0;
	for (unsigned i = 0; i < QUARTER / BURST; i++) {
		unsigned count = BURST;
		if (ground->loop == 1) {
			if (rte_mempool_get_bulk(pool, (void **)packets, count) != 0)
				break;
		} else {
			count = ground->receive(&ground->rx, packets, count);
		}
		if (ground->loop == 0) {
			rte_mempool_put_bulk(pool, (void **)packets, count);
			total += count;
			continue;
		}
		if (ground->loop == 3)
			swap(packets, count);
		total += ground->transmit(&ground->tx, packets, count);
	}
	return total;
}

static void checked_work(struct ground *ground)
{
	if (work(ground) != QUARTER)
		fail("the loops of this DPDK don't work on queues as they are declared here");
}

/* Buffers of the pool look as received ones do. */
static void set_buffers(void)
{
	static struct rte_mbuf *all[POOL];
	if (rte_mempool_get_bulk(pool, (void **)all, POOL - CACHE) != 0)
		fail("no buffers");
	for (int i = 0; i < POOL - CACHE; i++) {
		rte_pktmbuf_reset(all[i]);
		all[i]->data_len = all[i]->pkt_len = FRAME;
	}
	rte_mempool_put_bulk(pool, (void **)all, POOL - CACHE);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The median of a turn's samples, in ticks a packet. */
static double turn(struct ground *ground)
{
	static double ticks[SAMPLES];
	for (int i = 0; i < WARM + SAMPLES; i++) {
		card(ground);
		uint64_t before = rte_rdtsc_precise();
		checked_work(ground);
		uint64_t spent = rte_rdtsc_precise() - before;
		if (i >= WARM)
			ticks[i - WARM] = (double)spent / QUARTER;
	}
	qsort(ticks, SAMPLES, sizeof(double), by_value);
	return ticks[SAMPLES / 2];
}

static bool has(const char *set)
{
	if (strcmp(set, "avx512") == 0)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
	return strcmp(set, "avx2") != 0 || __builtin_cpu_supports("avx2");
}

static void time_turns(struct ground *ground, int turns)
{
	printf("%s\n", rte_version());
	for (int i = 0; i < turns; i++)
		printf("%.3f\n", turn(ground));
}

static void trace(struct ground *ground, int rounds)
{
	for (int i = 0; i < 12; i++) {
		card(ground);
		checked_work(ground);
	}
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		fail("nobody may trace");
	if (rounds == 0) {
		raise(SIGSTOP);
		raise(SIGSTOP);
	}
	for (int i = 0; i < rounds; i++) {
		card(ground);
		raise(SIGSTOP);
		unsigned count = work(ground);
		raise(SIGSTOP);
		if (count != QUARTER)
			fail("packets are missing");
	}
}

int main(int argc, char **argv)
{
	if (argc != 7)
		fail("i40e_loops huge|small CORE LOOP ISA timed|traced TURNS");
	char lcores[32], prefix[48];
	snprintf(lcores, sizeof(lcores), "0@%d", atoi(argv[2]));
	snprintf(prefix, sizeof(prefix), "barewire-loops%d", (int)getpid());
	char *pages = strcmp(argv[1], "huge") == 0 ? "--in-memory" : "--no-huge";
	char *eal[] = { "i40e_loops", pages, "--no-pci", "--no-telemetry", "-m", "64", "--lcores", lcores, "--file-prefix", prefix,
			"--log-level=3" };
	if (rte_eal_init(COUNT(eal), eal) < 0)
		fail("DPDK does not start");
	pool = rte_pktmbuf_pool_create("buffers", POOL, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	if (!pool)
		fail("DPDK has no buffers");
	set_buffers();
	unsigned loop = 0, set = 0;
	while (loop < COUNT(loops) && strcmp(loops[loop], argv[3]) != 0)
		loop++;
	while (set < COUNT(sets) && strcmp(sets[set].name, argv[4]) != 0)
		set++;
	if (loop == COUNT(loops) || set == COUNT(sets) || !has(argv[4]))
		fail("no such loop");
	struct ground *ground = new_ground(loop, set);
	if (strcmp(argv[5], "traced") == 0)
		trace(ground, atoi(argv[6]));
	else
		time_turns(ground, atoi(argv[6]));
	fflush(stdout);
	return 0;
}
