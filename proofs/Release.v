(* The two together: the premise of Promise.v holds of the step of Step.v, so the promise does. *)
From mathcomp Require Import ssreflect ssrfun ssrbool eqtype ssrnat seq choice fintype finfun bigop finset fingroup perm.
From mathcomp Require Import ssralg ssrnum rat.
From kanonflow Require Import Promise Numbers Step Against Left.
From kanonflow Require Items.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Lemma count_by_value (T : eqType) (s : seq T) (P : pred T) :
  (\sum_(u <- undup s | P u) count_mem u s)%N = count P s.
Proof.
rewrite -sum1_count (eq_bigr (fun u => \sum_(x <- s | x == u) 1)%N); last by move=> u _; rewrite sum1_count.
rewrite (exchange_big_dep xpredT) //= [RHS]big_mkcond /= [LHS]big_seq [RHS]big_seq; apply: eq_bigr => x xs.
rewrite (eq_bigl (fun u => (u == x) && P u)); last by move=> u; rewrite andbC eq_sym.
by rewrite big_mkcondr -big_filter filter_pred1_uniq ?undup_uniq ?mem_undup // big_seq1.
Qed.

Section Release.
Variables (person trail : finType) (payload : eqType) (rows : trail -> nat -> seq (row payload)).
Variables (k cohort_size : nat) (intake : nat -> nat) (delay : nat).
Variables (found : nat -> seq person -> person -> nat) (merge : nat -> seq (option cohort) -> groups -> counts -> cohort -> nat).
Variables (ends : nat -> nat) (closing : pred nat).
(* Which rows are rejected for good. *)
Variable drop : rule person payload.
Hypothesis drop_fair : fair (enum person) drop.
(* How many steps the epoch has had, over all runs that continue each other. *)
Variable steps : nat.
Notation people := (enum person).
Notation world := (world person trail).

Let trails (w : world) p := rows (w p).
Let final (w : world) := home (state_at people k cohort_size intake delay ends closing found merge drop (trails w) steps).
Definition public_of (w : world) := view people k cohort_size intake delay ends closing found merge drop (trails w) steps.
Definition bundle_of (w : world) p := bundle people k cohort_size intake delay ends closing found merge drop (trails w) steps p.

(* The reader sees the view of the world as it is, and of each cohort all bundles, each whole. *)
Variable real : world.
Definition members c : {set person} := [set p | final real p == Some c].
Definition published (w : world) : rat :=
  ((public_of w == public_of real) &&
   [forall p, if final real p is Some c then
      perm_eq [seq bundle_of w q | q <- enum (members c)] [seq bundle_of real q | q <- enum (members c)]
    else true])%:R.

Let at_end (w : world) e := state_at people k cohort_size intake delay ends closing found merge drop (trails w) e.

Lemma same_home w : public_of w = public_of real -> final w =1 final real.
Proof.
rewrite /final /public_of /view; case: steps => [//|n] same p.
have := congr1 (fun v => (nth ([::], None) v n).1) same.
rewrite !(nth_map 0%N) ?size_iota // nth_iota // add1n /result_at !public_home => /eq_in_map; apply.
by rewrite mem_enum.
Qed.

Section Cohort.
Variable c : cohort.

(* Whether the people of the cohort were together in all intakes that were tried, those that came to nothing among them: in
   one cohort, or in none. A reader is told that, and no more of such intakes. Where no intake comes to nothing, as where
   no rows are dropped, it is so in every world (`told_nothing`), and he is told nothing. *)
Definition tried (w : world) e := tried_at people k cohort_size intake delay ends closing found merge drop (trails w) e.
Definition never_apart w :=
  all (fun e => [forall p in members c, forall q in members c, tried w e p == tried w e q]) (iota 1 steps).

Variable told : pred world.
Hypothesis told_enough : forall w, public_of w = public_of real -> told w -> never_apart w.
Hypothesis told_moved : forall s w, within (members c) s -> public_of w = public_of real -> told w -> told (moved s w).
Definition published_so (w : world) : rat := published w * (told w)%:R.

Lemma keeps s q d : within (members c) s -> (s q \in members d) = (q \in members d).
Proof.
move=> ws; have [qc|qc] := boolP (q \in members c); last by rewrite ws.
have sc : s q \in members c.
  by apply: contraTT qc => sq; have /perm_inj := ws _ sq; move=> e; rewrite e in sq.
by move: qc sc; rewrite !inE => /eqP -> /eqP ->.
Qed.

Lemma mirrored_by s w : within (members c) s -> public_of w = public_of real -> never_apart w ->
  public_of (moved s w) = public_of w /\ (forall p, bundle_of (moved s w) p = bundle_of w (s p)) /\
  forall e, (0 < e <= steps)%N -> tried (moved s w) e =1 tried w e.
Proof.
move=> ws same alike; have fw := same_home same.
have sp : perm_eq [seq s p | p <- people] people.
  apply: uniq_perm; rewrite ?(map_inj_uniq (@perm_inj _ s)) ?enum_uniq // => q.
  by rewrite mem_enum inE; apply/mapP; exists (s^-1 q)%g; rewrite ?mem_enum ?permKV.
have tr p : trails (moved s w) p = trails w (s p) by rewrite /trails ffunE.
have t e : (e <= steps)%N -> together s (at_end w e).
  move=> le p; have [pc|pc] := boolP (p \in members c); last by rewrite ws.
  apply: (@always_together _ _ _ _ _ _ _ _ _ _ _ _ _ steps e (s p) p c le); apply/eqP.
    by have := keeps p c ws; rewrite pc !inE -fw.
  by move: pc; rewrite inE -fw.
have u e : (0 < e <= steps)%N -> forall p, tried w e (s p) = tried w e p.
  move=> le p; have [pc|pc] := boolP (p \in members c); last by rewrite ws.
  have := allP alike e; rewrite mem_iota add1n ltnS le => /(_ isT) /forall_inP/(_ (s p)).
  by rewrite keeps // => /(_ pc) /forall_inP/(_ p pc)/eqP.
have ag := run_mirror drop_fair sp tr t u.
split; first by apply/eq_in_map => e; rewrite mem_iota add1n ltnS => /ag[like a]; exact: a_public a.
split=> [p|e /ag[like a]]; last exact: a_would_be a.
by apply/eq_in_map => e; rewrite mem_iota add1n ltnS => /ag[like a]; rewrite (a_out a).
Qed.

Lemma mirrored s w : within (members c) s -> public_of w = public_of real -> told w ->
  public_of (moved s w) = public_of w /\ forall p, bundle_of (moved s w) p = bundle_of w (s p).
Proof. by move=> ws same tw; have [pub [bun _]] := mirrored_by ws same (told_enough same tw). Qed.

Lemma never_apart_moved s w : within (members c) s -> public_of w = public_of real -> never_apart w -> never_apart (moved s w).
Proof.
move=> ws same alike; have [_ [_ tr]] := mirrored_by ws same alike.
apply/allP => e; rewrite mem_iota add1n ltnS => le; have := allP alike e; rewrite mem_iota add1n ltnS le => /(_ isT).
by move/forall_inP=> each; apply/forall_inP => p pc; apply/forall_inP => q qc; rewrite !tr //; exact: (forall_inP (each p pc)).
Qed.

Lemma perm_members s d : within (members c) s -> perm_eq [seq s q | q <- enum (members d)] (enum (members d)).
Proof.
move=> ws; apply: uniq_perm; rewrite ?(map_inj_uniq (@perm_inj _ s)) ?enum_uniq // => q.
rewrite mem_enum; apply/mapP/idP => [[r]|qd]; first by rewrite mem_enum => rd ->; rewrite keeps.
by exists (s^-1 q)%g; rewrite ?permKV // mem_enum -(keeps _ _ ws) permKV.
Qed.

Lemma possible w : published_so w != 0 ->
  [/\ public_of w = public_of real, told w & forall d p, final real p = Some d ->
  perm_eq [seq bundle_of w q | q <- enum (members d)] [seq bundle_of real q | q <- enum (members d)]].
Proof.
rewrite /published_so /published mulf_eq0 !pnatr_eq0 !eqb0 negb_or !negbK => /andP[/andP[/eqP same /forallP each] tw].
by split=> // d p fp; have := each p; rewrite fp.
Qed.

Lemma published_swap s w : within (members c) s -> published_so w != 0 -> published_so (moved s w) = published_so w.
Proof.
move=> ws pw; have [same tw each] := possible pw; have [pub bun] := mirrored ws same tw.
rewrite /published_so tw (told_moved ws same tw) /published pub same eqxx /=; congr ((nat_of_bool _)%:R * _).
apply: eq_forallb => p; case fp: (final real p) => [d|] //; rewrite (each d p fp).
rewrite (eq_map bun) map_comp; apply: perm_trans (each d p fp).
exact: perm_map (perm_members d ws).
Qed.

(* The promise, of the model: whatever found and merge are, whoever sees all that is public, every bundle of every cohort
   whole, and has no reason to tell people of a cohort apart, thinks of each of its |members c| people the same. *)
Theorem promise (prior : world -> rat) p b :
  (forall s w, within (members c) s -> prior (moved s w) = prior w) -> p \in members c ->
  #|members c|%:R * weight prior published_so bundle_of p b =
  (count_mem b [seq bundle_of real q | q <- enum (members c)])%:R * evidence prior published_so.
Proof.
move=> ex pc; have fp : final real p = Some c by apply/eqP; move: pc; rewrite inE.
apply: (@one_in_k _ _ _ prior published_so bundle_of _ ex _ _ (fun b => count_mem b [seq bundle_of real q | q <- enum (members c)])) pc.
- exact: published_swap.
- by move=> s w q ws /possible[same tw _]; have [_ ->] := mirrored ws same tw.
- move=> w; rewrite /joint mulf_eq0 negb_or => /andP[_ /possible[_ _ each]] d.
  rewrite -(seq.permP (each c p fp)) count_map -size_filter.
  rewrite -(card_uniqP (filter_uniq _ (enum_uniq _))); apply: eq_card => q.
  by rewrite mem_filter mem_enum [LHS]inE andbC.
Qed.

(* Whoever also knows which bundle each of some people has is left those of the others. *)
Theorem promise_less_known (prior : world -> rat) p b (known : {set person}) :
  (forall s w, within (members c) s -> prior (moved s w) = prior w) -> p \in members c :\: known ->
  let less := release_known published_so bundle_of known (bundle_of real) in
  #|members c :\: known|%:R * weight prior less bundle_of p b =
  (count_mem b [seq bundle_of real q | q <- enum (members c :\: known)])%:R * evidence prior less.
Proof.
move=> ex pc less; have fp : final real p = Some c by apply/eqP; move: pc; rewrite !inE => /andP[].
have sw s w q : within (members c) s -> published_so w != 0 -> bundle_of (moved s w) q = bundle_of w (s q).
  by move=> ws /possible[same tw _]; have [_ ->] := mirrored ws same tw.
apply: (one_in_k_less_known ex published_swap sw (m := fun b => count_mem b _)) pc => w.
rewrite /joint mulf_eq0 negb_or => /andP[_]; rewrite /release_known; case: ifP => [kw|_]; last by rewrite eqxx.
move=> /possible[_ _ each] d; have := each c p fp; rewrite perm_sym.
have parts v : perm_eq [seq bundle_of v q | q <- enum (members c)]
    ([seq bundle_of v q | q <- enum (members c :&: known)] ++ [seq bundle_of v q | q <- enum (members c :\: known)]).
  rewrite -map_cat; apply: perm_map; apply: uniq_perm; rewrite ?enum_uniq //.
    rewrite cat_uniq !enum_uniq andbT /=; apply/hasPn => q; rewrite mem_enum inE => /andP[nk _].
    by apply: contra nk => /=; rewrite mem_enum inE => /andP[].
  by move=> q; rewrite mem_cat !mem_enum in_setI in_setD; case: (q \in known); rewrite /= ?andbT ?andbF ?orbF.
have known_same : [seq bundle_of w q | q <- enum (members c :&: known)] =
                  [seq bundle_of real q | q <- enum (members c :&: known)].
  apply/eq_in_map => q; rewrite mem_enum inE => /andP[_ qk]; exact/eqP/(forall_inP kw).
move=> same; have := perm_trans (perm_trans _ same) (parts w); move: (parts real); rewrite perm_sym => pr.
move=> /(_ _ pr); rewrite known_same perm_cat2l => left.
rewrite (seq.permP left) count_map -size_filter.
rewrite -(card_uniqP (filter_uniq _ (enum_uniq _))); apply: eq_card => q.
by rewrite mem_filter mem_enum [LHS]inE andbC.
Qed.

(* Whoever knows anything of what is out of p's rows, a day or a purchase, is left those bundles that fit. *)
Theorem promise_fitting (prior : world -> rat) p b (fits : pred _) :
  (forall s w, within (members c) s -> prior (moved s w) = prior w) -> p \in members c -> fits b ->
  let shown := [seq bundle_of real q | q <- enum (members c)] in b \in shown ->
  (count fits shown)%:R * weight prior published_so bundle_of p b =
  (count_mem b shown)%:R * mass prior published_so (fun w => fits (bundle_of w p)).
Proof.
move=> ex pc fb shown bs; have fp : final real p = Some c by apply/eqP; move: pc; rewrite inE.
have app : appears prior published_so bundle_of (members c) (fun b => count_mem b shown).
  move=> w; rewrite /joint mulf_eq0 negb_or => /andP[_ /possible[_ _ each]] d.
  rewrite -(seq.permP (each c p fp)) count_map -size_filter.
  rewrite -(card_uniqP (filter_uniq _ (enum_uniq _))); apply: eq_card => q.
  by rewrite mem_filter mem_enum [LHS]inE andbC.
have sw s w q : within (members c) s -> published_so w != 0 -> bundle_of (moved s w) q = bundle_of w (s q).
  by move=> ws /possible[same tw _]; have [_ ->] := mirrored ws same tw.
rewrite -(one_in_fitting ex published_swap sw app pc (undup_uniq shown) _ _ fb) ?mem_undup //; last first.
  move=> w; rewrite /joint mulf_eq0 negb_or => /andP[_ /possible[_ _ each]].
  by rewrite mem_undup -(perm_mem (each c p fp)) map_f // mem_enum.
by rewrite count_by_value.
Qed.

(* Where each person has a number on all its rows, drawn among the people of a cohort: whatever stands on the rows of a
   number, it is that of each of them with the same probability. *)
Theorem promise_numbered (prior : world -> rat) seen x p q :
  (forall s w, within (members c) s -> prior (moved s w) = prior w) -> p \in members c -> q \in members c ->
  weight_of prior published_so bundle_of (members c) seen x p = weight_of prior published_so bundle_of (members c) seen x q.
Proof.
move=> ex; apply: (number_of_anybody ex published_swap) => s w r ws /possible[same tw _].
by have [_ ->] := mirrored ws same tw.
Qed.

Theorem at_least_k p : founds_enough cohort_size found -> p \in members c -> (cohort_size <= #|members c|)%N.
Proof.
move=> enough; rewrite inE => /eqP fp.
have := cohort_floor enough _ fp; rewrite mem_enum => /(_ isT) le.
apply: leq_trans le _; rewrite -size_filter -(card_uniqP (filter_uniq _ (enum_uniq _))).
by apply/subset_leq_card/subsetP => q; rewrite mem_filter inE => /andP[].
Qed.

End Cohort.

(* Where no intake came to nothing, nobody was ever apart. *)
Lemma done_together c w : public_of w = public_of real ->
  (forall e, (0 < e <= steps)%N -> ~~ undone people k cohort_size intake delay ends closing found merge drop (trails w) e) ->
  never_apart c w.
Proof.
move=> same done; have fw := same_home same; apply/allP => e; rewrite mem_iota add1n ltnS => le.
apply/forall_inP => p; rewrite inE -fw => /eqP pc; apply/forall_inP => q; rewrite inE -fw => /eqP qc.
have /andP[e0 le_e] := le; have := done e le; rewrite /tried -(prednK e0) => un.
by rewrite !(tried_done un) prednK //; apply/eqP; apply: always_together le_e pc qc.
Qed.
End Release.

Section Rules.
Variables (person trail : finType) (payload : eqType) (rows : trail -> nat -> seq (row payload)).
Variables (k cohort_size : nat) (intake : nat -> nat) (delay : nat).
Variables (found : nat -> seq person -> person -> nat) (merge : nat -> seq (option cohort) -> groups -> counts -> cohort -> nat).
Variables (ends : nat -> nat) (closing : pred nat) (steps : nat) (real : world person trail) (c : cohort).
Variable prior : world person trail -> rat.
Notation of_model f drop := (f person trail payload rows k cohort_size intake delay found merge ends closing drop steps).
Notation members_of drop := (of_model (@members) drop real c).
Notation bundles drop := (of_model (@bundle_of) drop).

(* Where nothing is dropped a reader is told nothing of intakes. *)
Theorem promise_everything p b : let drop := everything person payload in
  (forall s w, within (members_of drop) s -> prior (moved s w) = prior w) -> p \in members_of drop ->
  #|members_of drop|%:R * weight prior (of_model (@published) drop real) (bundles drop) p b =
  (count_mem b [seq bundles drop real q | q <- enum (members_of drop)])%:R * evidence prior (of_model (@published) drop real).
Proof.
move=> drop ex pc; have together w : of_model (@public_of) drop w = of_model (@public_of) drop real -> xpredT w ->
  of_model (@never_apart) drop real c w by move=> same _; apply: done_together same _ => e _; exact: nothing_undone.
have := promise (everything_fair payload (enum person)) together (fun _ _ _ _ _ => isT) b ex pc.
have all_told w : of_model (@published_so) drop real xpredT w = of_model (@published) drop real w by exact: mulr1.
rewrite /weight /evidence /mass /joint.
by under eq_bigr do rewrite all_told; under [in RHS]eq_bigr do rewrite all_told.
Qed.

(* With the rule of `against`, whatever it counts. *)
Theorem promise_against least d m look p b : let drop := against (enum person) least d m look in
  let published_so := of_model (@published_so) drop real (of_model (@never_apart) drop real c) in
  (forall s w, within (members_of drop) s -> prior (moved s w) = prior w) -> p \in members_of drop ->
  #|members_of drop|%:R * weight prior published_so (bundles drop) p b =
  (count_mem b [seq bundles drop real q | q <- enum (members_of drop)])%:R * evidence prior published_so.
Proof.
move=> drop so ex pc; have fair := against_fair (enum person) least d m look.
by apply: (promise fair _ _ b ex pc) => // s w; exact: (never_apart_moved fair).
Qed.

(* Whoever knows that p has rows in up to d windows that went out, and up to m rows by window and look: of the bundles that
   he is left with each is p's with the same probability, and they are those of enough people. *)
Section Known.
Variables (least d m : nat) (look : row payload -> nat) (windows : seq (nat * nat)) (known_rows : seq (nat * name)).
Let drop := against (enum person) least d m look.
Notation at_step := (state_at (enum person) k cohort_size intake delay ends closing found merge drop).
Notation result := (result_at (enum person) k cohort_size intake delay ends closing found merge drop).
Let trails_of p := rows (real p).

Definition has_rows (b : seq (nat * seq (nat * row payload))) n (P : pred (row payload)) :=
  has (fun s => (s.1 == n) && has (fun r => P r.2) s.2) b.
Definition has_known b :=
  all (fun x => has_rows b x.1 (fun r => r.1 == x.2)) windows &&
  all (fun x => has_rows b x.1 (fun r => (r.1, look r) == x.2)) known_rows.

Lemma has_rows_out n P q : (0 < n <= steps)%N -> q \in members_of drop ->
  has_rows (bundles drop real q) n P =
  (q \in out_of least d m look k cohort_size intake delay ends closing found merge trails_of c n P).
Proof.
rewrite !inE => le /eqP qc; rewrite /has_rows /bundle_of /bundle has_map.
have -> : has (preim (fun n => (n, out (result trails_of n) q)) (fun s => (s.1 == n) && has (fun r => P r.2) s.2)) (iota 1 steps) =
          has (fun r => P r.2) (out (result trails_of n) q).
  apply/hasP/idP => [[n' _ /= /andP[/eqP -> //]]|some]; exists n; last by rewrite /= eqxx.
  by rewrite mem_iota add1n ltnS.
case some: (has _ _); last by rewrite andbF.
rewrite andbT; apply/esym; have /andP[n0 le_n] := le.
have : knows (home (at_step trails_of n)) q.
  move: some; rewrite -(prednK n0) /result_at /= /step; case: ifP => //= _.
  by rewrite /goes; case: ifP => // /andP[].
rewrite /knows; case hq: (home _ q) => [c'|] // _.
by have := stays (steps - n) hq; rewrite subnK // => same; apply/eqP; rewrite -same; exact: qc.
Qed.

Theorem promise_left p b : let published_so := of_model (@published_so) drop real (of_model (@never_apart) drop real c) in
  let shown := [seq bundles drop real q | q <- enum (members_of drop)] in
  (forall s w, within (members_of drop) s -> prior (moved s w) = prior w) -> p \in members_of drop ->
  (least <= #|person|)%N -> (0 < size windows + size known_rows)%N -> (size windows <= d)%N -> (size known_rows <= m)%N ->
  all (fun x => 0 < x.1 <= steps)%N windows -> all (fun x => 0 < x.1 <= steps)%N known_rows ->
  has_known b -> b \in shown ->
  (least <= count has_known shown)%N /\
  (count has_known shown)%:R * weight prior published_so (bundles drop) p b =
  (count_mem b shown)%:R * mass prior published_so (fun w => has_known (bundles drop w p)).
Proof.
move=> so shown ex pc large any few few' in_ in' kb bs; split; last first.
  apply: (promise_fitting (against_fair (enum person) least d m look) _ _ ex pc kb bs) => // s w.
  exact: (never_apart_moved (against_fair (enum person) least d m look)).
have [q qc bq] := mapP bs; rewrite mem_enum in qc.
set left_ := Items.have_all (map (had_window least d m look k cohort_size intake delay ends closing found merge trails_of c) windows) :&:
             Items.have_all (map (had_row least d m look k cohort_size intake delay ends closing found merge trails_of c) known_rows).
have in_all (T : Type) (some : seq T) (of_ : T -> {set person}) x : (x \in Items.have_all (map of_ some)) = all (fun y => x \in of_ y) some.
  by elim: some => [|y some IH]; rewrite /= ?Items.have_all_cons ?inE ?IH // /Items.have_all big_nil inE.
have is_left x : x \in members_of drop -> has_known (bundles drop real x) = (x \in left_).
  move=> xc; rewrite inE !in_all; congr andb; apply: eq_in_all => -[n e] yin; apply: has_rows_out => //.
    exact: (allP in_ _ yin).
  exact: (allP in' _ yin).
have inside x : x \in left_ -> x \in members_of drop.
  have home_in n P : (0 < n <= steps)%N ->
      x \in out_of least d m look k cohort_size intake delay ends closing found merge trails_of c n P -> x \in members_of drop.
    case/andP=> _ le; rewrite !inE => /andP[/eqP xc _].
    by have := stays (steps - n) xc; rewrite subnK // => ->.
  rewrite inE !in_all => /andP[xw xr]; case: windows any in_ xw => [|y ys] /=.
    case: known_rows in' xr => [|y ys] //= /andP[yin _] /andP[xy _] _ _ _; exact: home_in yin xy.
  by move=> _ /andP[yin _] /andP[xy _]; exact: home_in yin xy.
have := @left_in_step _ _ least d m look k cohort_size intake delay ends closing found merge trails_of steps c windows known_rows q
  large in_ in' few few'; rewrite /= -/left_ -(is_left q qc) -bq => /(_ kb) enough.
apply: leq_trans enough _; rewrite count_map -size_filter cardE; apply: uniq_leq_size; first exact: enum_uniq.
move=> x; rewrite mem_enum => xl; have xin := inside x xl.
by rewrite mem_filter mem_enum xin andbT; apply: etrans (is_left x xin) _.
Qed.
End Known.
End Rules.
Print Assumptions promise.
Print Assumptions promise_less_known.
Print Assumptions promise_fitting.
Print Assumptions promise_numbered.
Print Assumptions at_least_k.
Print Assumptions promise_everything.
Print Assumptions promise_against.
Print Assumptions promise_left.
